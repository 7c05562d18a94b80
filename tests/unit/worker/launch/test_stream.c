/* SPDX-License-Identifier: BSD-3-Clause */
/* What a child writes comes out in whole lines with its label, and progress in place only on a terminal. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/launch/stream.h"

/* A stream whose child is the test. */
struct fixture {
    int child;
    struct stream stream;
    struct sink sink;
    char seen[200000];
};

/* set_up -- a pipe into the stream. */
static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    int ends[2];

    if (f == NULL || pipe2(ends, O_NONBLOCK) != 0)
        return -1;
    f->child = ends[1];
    f->sink = (struct sink){.fd = -1};
    f->stream = (struct stream){.fd = ends[0], .sink = &f->sink, .label = "w 0: "};
    *state = f;
    return 0;
}

/* tear_down -- frees. */
static int tear_down(void **state)
{
    struct fixture *f = *state;

    if (f->child >= 0)
        close(f->child);
    stream_close(&f->stream);
    sink_clear(&f->sink);
    free(f);
    return 0;
}

/* say -- the child writes. */
static void say(struct fixture *f, const char *text)
{
    assert_int_equal(write(f->child, text, strlen(text)), strlen(text));
    assert_true(stream_read(&f->stream));
}

/* end -- the child is gone. */
static void end(struct fixture *f)
{
    close(f->child);
    f->child = -1;
    assert_false(stream_read(&f->stream));
    assert_int_equal(f->stream.fd, -1);
}

/* heard -- what reached the sink since the last time. */
static const char *heard(struct fixture *f)
{
    memcpy(f->seen, f->sink.data != NULL ? f->sink.data : "", f->sink.used);
    f->seen[f->sink.used] = '\0';
    f->sink.used = 0;
    return f->seen;
}

static void lines_are_labelled_and_handed_on_whole(void **state)
{
    struct fixture *f = *state;
    say(f, "one\ntw");
    assert_string_equal(heard(f), "w 0: one\n");
    say(f, "o\n\n");
    assert_string_equal(heard(f), "w 0: two\nw 0: \n");
}

static void a_last_line_without_newline_is_not_lost(void **state)
{
    struct fixture *f = *state;
    say(f, "tail");
    assert_string_equal(heard(f), "");
    end(f);
    assert_string_equal(heard(f), "w 0: tail\n");
}

static void who_names_itself_is_not_named_twice(void **state)
{
    struct fixture *f = *state;
    say(f, "w 0: hello\nw 1: other\n");
    assert_string_equal(heard(f), "w 0: hello\nw 0: w 1: other\n");
}

static void without_a_terminal_only_the_last_state_of_a_line_is_kept(void **state)
{
    struct fixture *f = *state;
    say(f, "\rstep 1");
    say(f, "\rstep 2");
    assert_string_equal(heard(f), "");
    say(f, "\rstep 3\n");
    assert_string_equal(heard(f), "w 0: step 3\n");
}

static void a_carriage_return_before_a_newline_belongs_to_it(void **state)
{
    struct fixture *f = *state;
    say(f, "dos\r\nnext\r");
    assert_string_equal(heard(f), "w 0: dos\n");
    say(f, "\n");
    assert_string_equal(heard(f), "w 0: next\n");
}

static void on_a_terminal_progress_is_shown_in_place_and_lines_of_others_go_above(void **state)
{
    struct fixture *f = *state;
    f->stream.live = true;
    say(f, "\rstep 1");
    assert_string_equal(heard(f), "\r\033[Kw 0: step 1");
    sink_line(&f->sink, "ps 0: ", "x", 1);
    assert_string_equal(heard(f), "\r\033[Kps 0: x\n");
    say(f, "\rstep 2");
    assert_string_equal(heard(f), "\r\033[Kw 0: step 2");
    say(f, "\n");
    assert_string_equal(heard(f), "\r\033[Kw 0: step 2\n");
    say(f, "plain");
    assert_string_equal(heard(f), ""); /* an unfinished line that was not begun by a carriage return waits */
}

static void a_line_without_end_is_cut(void **state)
{
    struct fixture *f = *state;
    char piece[4001];
    size_t lines = 0;
    memset(piece, 'x', 4000);
    piece[4000] = '\0';
    for (int i = 0; i < 40; i++)
        say(f, piece);
    const char *text = heard(f);
    for (size_t i = 0; text[i] != '\0'; i++)
        lines += text[i] == '\n';
    assert_int_equal(lines, 2); /* 160,000 characters in pieces of 65,536 */
}

/* take_word -- takes lines that begin with "take". */
static bool take_word(void *context, const char *line, size_t n)
{
    *(int *)context += 1;
    return n >= 4 && memcmp(line, "take", 4) == 0;
}

static void a_line_can_be_taken_out(void **state)
{
    struct fixture *f = *state;
    int calls = 0;
    f->stream.taken = take_word;
    f->stream.context = &calls;
    say(f, "take this\nkeep this\n\n");
    assert_string_equal(heard(f), "w 0: keep this\nw 0: \n");
    assert_int_equal(calls, 3);
}

static void a_sink_keeps_what_its_reader_does_not_take_and_says_when_it_is_full(void **state)
{
    (void)state;
    int ends[2];
    static char back[1 << 20];
    struct sink sink;
    size_t lines = 0, got = 0;
    assert_int_equal(pipe2(ends, 0), 0);
    assert_true(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    sink_init(&sink, ends[1]);
    assert_false(sink.terminal);
    while (!sink_is_full(&sink)) {
        sink_line(&sink, "", "0123456789", 10);
        lines++;
        sink_flush(&sink, false); /* never blocks, although the pipe fills up */
    }
    while (sink.used > 0) {
        ssize_t n = read(ends[0], back + got, sizeof(back) - got);
        got += n > 0 ? (size_t)n : 0;
        sink_flush(&sink, false);
    }
    for (ssize_t n; (n = read(ends[0], back + got, sizeof(back) - got)) > 0;)
        got += (size_t)n;
    assert_int_equal(got, lines * 11);
    for (size_t i = 0; i < got; i++)
        assert_int_equal(back[i], "0123456789\n"[i % 11]);
    sink_clear(&sink);
    close(ends[0]);
    close(ends[1]);
}

#define STREAM_TEST(name_) cmocka_unit_test_setup_teardown(name_, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(lines_are_labelled_and_handed_on_whole),
        STREAM_TEST(a_last_line_without_newline_is_not_lost),
        STREAM_TEST(who_names_itself_is_not_named_twice),
        STREAM_TEST(without_a_terminal_only_the_last_state_of_a_line_is_kept),
        STREAM_TEST(a_carriage_return_before_a_newline_belongs_to_it),
        STREAM_TEST(on_a_terminal_progress_is_shown_in_place_and_lines_of_others_go_above),
        STREAM_TEST(a_line_without_end_is_cut),
        STREAM_TEST(a_line_can_be_taken_out),
        cmocka_unit_test(a_sink_keeps_what_its_reader_does_not_take_and_says_when_it_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
