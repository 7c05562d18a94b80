/* SPDX-License-Identifier: BSD-3-Clause */
/* file -- a small file that appears complete or not at all. */
#ifndef TRANSPORT_BASE_FILE_H
#define TRANSPORT_BASE_FILE_H

/*
 * file_write -- text as the whole content of a file, with the mode that the umask leaves of 0666. A symbolic link is followed. What is
 * there and is no regular file (a device, a FIFO) stays and is written to. Returns 0 or the errno.
 */
int file_write(const char *path, const char *text);

#endif
