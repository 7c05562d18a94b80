/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* picture_extent -- what a curve spans */
struct picture_extent {
    size_t count;
    double least, most;
    double last_seconds, last;
};

/* picture_scale -- both axes have the same number of intervals, so that one grid serves both */
struct picture_scale {
    int intervals;
    double loss_step;
    int floor_percent, percent_step;
};

/* picture_terminal -- gnuplot's words for the kind of picture that a name asks for; NULL for
 * neither */
static const char *picture_terminal(const char *picture)
{
    size_t length = strlen(picture);
    if (length > 4 && strcmp(picture + length - 4, ".svg") == 0)
        return "svg size 960,560 dynamic rounded background '#ffffff' font 'DejaVu "
               "Sans,Helvetica,sans-serif,14'";
    if (length > 4 && strcmp(picture + length - 4, ".png") == 0)
        return "pngcairo size 1440,840 rounded background '#ffffff' font 'DejaVu Sans,14' "
               "fontscale 1.4 linewidth 1.5";
    return NULL;
}

/* picture_quoted -- a text as a gnuplot string: in single quotes, those within doubled */
static void picture_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', to);
        fputc(*text, to);
    }
    fputc('\'', to);
}

/* picture_points -- a data block of (seconds, value) of every point that has the key */
static struct picture_extent picture_points(FILE *to, const char *block, const json_t *history,
                                            const char *key)
{
    struct picture_extent extent = {0};
    size_t i;
    const json_t *point;
    fprintf(to, "$%s << END\n", block);
    json_array_foreach(history, i, point)
    {
        const json_t *value = json_object_get(point, key);
        if (!json_is_number(value))
            continue;
        extent.last = json_number_value(value);
        extent.last_seconds = json_number_value(json_object_get(point, "seconds"));
        fprintf(to, "%.4f %.6f\n", extent.last_seconds, extent.last);
        if (extent.count == 0 || extent.last < extent.least)
            extent.least = extent.last;
        if (extent.count++ == 0 || extent.last > extent.most)
            extent.most = extent.last;
    }
    fprintf(to, "END\n");
    return extent;
}

/* picture_step -- the least of ... 0.1, 0.2, 0.5, 1, 2, 5 ... with which so many intervals reach from 0
 * to most */
static double picture_step(double most, int intervals)
{
    static const double steps[] = {1.0, 2.0, 5.0};
    if (!(most > 0.0))
        return 0.1;
    double power = pow(10.0, floor(log10(most / intervals)));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (steps[i] * power * intervals >= most)
            return steps[i] * power;
    return 10.0 * power;
}

/* picture_percents -- the narrowest axis of so many intervals for percents from least to most, with a
 * tenth left above for the label, and a tenth below, where the loss ends; false if there is none */
static bool picture_percents(struct picture_scale *scale, double least, double most)
{
    static const int steps[] = {1, 2, 5, 10, 20};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        int span = scale->intervals * steps[i];
        if (span > 100)
            return false;
        int top = (int)ceil((most + 0.1 * span) / steps[i]) * steps[i];
        top = top > 100 ? 100 : top < span ? span : top;
        scale->percent_step = steps[i];
        scale->floor_percent = top - span;
        if (top == span || least >= top - 0.9 * span)
            return true;
    }
    return false;
}

/* picture_fit -- as many intervals as fill the axis of the loss best. Five always do: 20 percent each */
static struct picture_scale picture_fit(const struct picture_extent *loss,
                                        const struct picture_extent *accuracy)
{
    struct picture_scale best = {0};
    double least = accuracy->count > 1 ? 100.0 * accuracy->least : 0.0;
    for (int intervals = 4; intervals <= 8; intervals++) {
        struct picture_scale scale = {.intervals = intervals,
                                      .loss_step = picture_step(loss->most, intervals)};
        if (picture_percents(&scale, least, 100.0 * accuracy->most) &&
            (best.intervals == 0 || intervals * scale.loss_step < best.intervals * best.loss_step))
            best = scale;
    }
    return best;
}

/* picture_axes -- ranges and ticks */
static void picture_axes(FILE *to, const struct picture_scale *scale)
{
    int digits = scale->loss_step < 1.0 ? (int)ceil(-log10(scale->loss_step) - 1e-9) : 0;
    fprintf(to,
            "set xrange [0:*]\n"
            "set yrange [0:%.9g]\nset ytics 0, %.9g textcolor rgb '#b5482a'\nset format y '%%.%df'\n"
            "set y2range [%d:%d]\nset y2tics %d, %d textcolor rgb '#1f5fa8'\n",
            scale->intervals * scale->loss_step, scale->loss_step, digits, scale->floor_percent,
            scale->floor_percent + scale->intervals * scale->percent_step, scale->floor_percent,
            scale->percent_step);
}

/* picture_loss_name -- what a point of the loss is the mean of: the steps since the point before it */
static void picture_loss_name(char *name, size_t size, const json_t *history)
{
    json_int_t first = json_integer_value(json_object_get(json_array_get(history, 0), "step"));
    json_int_t second = json_integer_value(json_object_get(json_array_get(history, 1), "step"));
    json_int_t steps = second > first ? second - first : first;
    if (steps > 1)
        snprintf(name, size, "training loss, mean of %" JSON_INTEGER_FORMAT " steps", steps);
    else
        snprintf(name, size, "training loss of single batches");
}

/* picture_headline -- what was run and what came out, above the curves */
static void picture_headline(FILE *to, const json_t *result)
{
    const char *transport = json_string_value(json_object_get(result, "transport"));
    json_int_t workers = json_integer_value(json_object_get(result, "workers"));
    json_int_t ps = json_integer_value(json_object_get(result, "ps"));
    json_int_t epochs = json_integer_value(json_object_get(result, "epochs"));
    fprintf(to, "set title \"{/:Bold=17 Fashion-MNIST: test accuracy %.2f %% after %.0f s}\\n{/=12 ",
            100.0 * json_number_value(json_object_get(result, "test_accuracy")),
            json_number_value(json_object_get(result, "seconds")));
    if (ps > 0)
        fprintf(to,
                "%" JSON_INTEGER_FORMAT " worker%s and %" JSON_INTEGER_FORMAT " parameter server%s over %s, ",
                workers, workers == 1 ? "" : "s", ps, ps == 1 ? "" : "s", transport);
    else
        fprintf(to, "one process alone, ");
    fprintf(to,
            "%" JSON_INTEGER_FORMAT " epoch%s, %" JSON_INTEGER_FORMAT " steps, %.0f images/s}\" noenhanced\n",
            epochs, epochs == 1 ? "" : "s", json_integer_value(json_object_get(result, "global_step")),
            json_number_value(json_object_get(result, "images_per_second")));
    fprintf(to, "set title enhanced textcolor rgb '#222222'\n");
}

/* picture_script -- everything gnuplot needs to know, data included */
static int picture_script(FILE *to, const char *terminal, const char *picture, const json_t *result)
{
    char loss_name[80];
    const json_t *history = json_object_get(result, "history");
    struct picture_extent loss = picture_points(to, "loss", history, "loss");
    struct picture_extent accuracy = picture_points(to, "accuracy", history, "accuracy");
    if (loss.count == 0 || accuracy.count == 0)
        return -1;
    struct picture_scale scale = picture_fit(&loss, &accuracy);
    picture_loss_name(loss_name, sizeof loss_name, history);

    fprintf(to, "set terminal %s\nset output ", terminal);
    picture_quoted(to, picture);
    fprintf(to, "\n");
    picture_headline(to, result);
    fprintf(to,
            "set border 11 linecolor rgb '#999999'\n"
            "set grid ytics xtics linecolor rgb '#e4e4e4' linewidth 1 linetype 1\n"
            "set tics nomirror textcolor rgb '#444444'\n"
            "set lmargin 10\nset rmargin 11\nset tmargin 4.5\nset bmargin 5.5\n"
            "set xlabel 'seconds of training' textcolor rgb '#222222'\n"
            "set ylabel 'training loss (cross entropy)' textcolor rgb '#b5482a'\n"
            "set y2label 'test accuracy, %%' textcolor rgb '#1f5fa8'\n"
            "set key bmargin center horizontal samplen 2 width -6 textcolor rgb '#222222'\n"
            "set label 1 '%.2f %%' at first %.4f, second %.4f right offset -1.5,1.1 textcolor rgb '#1f5fa8' "
            "font ',14' front\n",
            100.0 * accuracy.last, accuracy.last_seconds, 100.0 * accuracy.last);
    picture_axes(to, &scale);
    fprintf(to,
            "plot $loss using 1:2 axes x1y1 with lines linewidth 1.6 linecolor rgb '#d98c73' "
            "title '%s', \\\n"
            "     $accuracy using 1:(100*$2) axes x1y2 with linespoints linewidth 2.2 pointtype 7 "
            "pointsize 0.7 linecolor rgb '#1f5fa8' title 'test accuracy'\n",
            loss_name);
    return 0;
}

/* picture_gnuplot -- let gnuplot work on a script file; its complaints go where ours go */
static int picture_gnuplot(const char *script, struct fault *fault)
{
    char *argv[] = {"gnuplot", (char *)(uintptr_t)script, NULL};
    pid_t pid;
    int status;
    int code = posix_spawnp(&pid, "gnuplot", NULL, NULL, argv, environ);
    if (code != 0)
        return fault_set(fault, FAULT_PERMANENT, "can't start gnuplot (%s): install Debian's gnuplot-nox",
                         strerror(code));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return fault_set(fault, FAULT_PERMANENT, "lost sight of gnuplot (%s)", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fault_set(fault, FAULT_PERMANENT, "gnuplot failed: its own words are above");
    return 0;
}

/* picture_draw_json -- write the script to a file in memory, which gnuplot inherits, and have it drawn */
static int picture_draw_json(const json_t *result, const char *name, const char *picture, struct fault *fault)
{
    char script[32];
    int fd = memfd_create("stepgate-picture", 0);
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (to == NULL) {
        int code = errno;
        if (fd >= 0)
            close(fd);
        return fault_set(fault, FAULT_PERMANENT, "can't make a file in memory (%s)", strerror(code));
    }
    snprintf(script, sizeof(script), "/dev/fd/%d", fd);
    int rc = picture_script(to, picture_terminal(picture), picture, result);
    if (rc < 0)
        fault_set(fault, FAULT_PERMANENT, "%s has no history of loss and accuracy: give a result of --json",
                  name);
    if (fflush(to) != 0)
        rc = fault_set(fault, FAULT_PERMANENT, "can't write %s (%s)", script, strerror(errno));
    if (rc == 0)
        rc = picture_gnuplot(script, fault);
    fclose(to);
    return rc;
}

/* picture_draw -- from a result file to a picture, whose name ends in .svg or .png; gnuplot draws
 * it */
int picture_draw(const char *result, const char *picture, struct fault *fault)
{
    json_error_t error;
    if (picture_terminal(picture) == NULL)
        return fault_set(fault, FAULT_USAGE,
                         "can't tell what picture %s is to be: end its name in .svg or .png", picture);
    json_t *json = json_load_file(result, 0, &error);
    if (json == NULL)
        return fault_set(fault, FAULT_PERMANENT, "can't read %s (%s): give the file that --json wrote",
                         result, error.text);
    int rc = picture_draw_json(json, result, picture, fault);
    json_decref(json);
    return rc;
}
