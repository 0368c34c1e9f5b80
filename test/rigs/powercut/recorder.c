/*
 * Writes down what a process does to the files of one folder: each write, truncation, sync and removal, in order. Loaded with
 * LD_PRELOAD. Can also let the n-th of these calls fail. Linux only; a rig, no part of the package.
 *
 *   TEST_RECORD         where the record goes; absent: nothing is recorded
 *   TEST_RECORD_FOLDER  files whose path begins so are watched; shared-memory files (-shm) are not, for they do not outlive a power cut
 *   TEST_FAIL_AT        the n-th write, truncation or sync of a watched file (acks apart) fails, counted from 1
 *   TEST_FAIL_COUNT     how many in a row fail, default 1
 *   TEST_FAIL_ERRNO     with which error, default 5 (EIO)
 *   TEST_FAIL_KIND      "sync", "write" or "read": only these are counted and fail; default: writes, truncations and syncs
 *
 * An entry: type, file, two zero bytes, length of data (32 bits), offset or size (64 bits), data. Little-endian.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE = 2, SYNC = 3, REMOVE = 4, NAME = 5, UNSYNCED = 6, READ = 7 };
enum { MAX_FD = 4096, MAX_FILES = 64 };

static unsigned char file_of[MAX_FD]; /* 0: not watched */
static char *names[MAX_FILES];
static int file_count;
static int log_fd = -1;
static const char *folder;
static long calls, fail_at, fail_count = 1;
static int fail_errno = EIO, fail_kind;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("TEST_RECORD"), *at = getenv("TEST_FAIL_AT"), *count = getenv("TEST_FAIL_COUNT"),
             *number = getenv("TEST_FAIL_ERRNO"), *kind = getenv("TEST_FAIL_KIND");
  folder = getenv("TEST_RECORD_FOLDER");
  if (at) fail_at = atol(at);
  if (count) fail_count = atol(count);
  if (number) fail_errno = atoi(number);
  if (kind) fail_kind = kind[0] == 's' ? SYNC : kind[0] == 'w' ? WRITE : READ;
  if (path) log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void record(int type, int file, uint64_t offset, const void *data, uint32_t length) {
  if (log_fd < 0) return;
  unsigned char head[16] = {(unsigned char)type, (unsigned char)file};
  memcpy(head + 4, &length, 4);
  memcpy(head + 8, &offset, 8);
  struct iovec parts[2] = {{head, sizeof head}, {(void *)data, length}};
  if (syscall(SYS_writev, log_fd, parts, 2) != (long)(sizeof head + length)) abort();
}

static int watched(int fd) { return fd >= 0 && fd < MAX_FD ? file_of[fd] : 0; }

static int is_ack(int file) {
  size_t length = strlen(names[file]);
  return length >= 5 && strcmp(names[file] + length - 5, "/acks") == 0;
}

/* Whether this call is one that is to fail. */
static int fails(int file, int kind) {
  if (!fail_at || is_ack(file) || (fail_kind ? kind != fail_kind : kind == READ)) return 0;
  calls++;
  if (calls < fail_at || calls >= fail_at + fail_count) return 0;
  errno = fail_errno;
  return 1;
}

static int name_of(const char *path) {
  size_t length = strlen(path);
  if (!folder || strncmp(path, folder, strlen(folder)) != 0) return 0;
  if (length >= 4 && strcmp(path + length - 4, "-shm") == 0) return 0;
  for (int i = 1; i <= file_count; i++)
    if (strcmp(names[i], path) == 0) return i;
  if (file_count + 1 >= MAX_FILES) abort();
  names[++file_count] = strdup(path);
  record(NAME, file_count, 0, path, (uint32_t)length);
  return file_count;
}

static int opened(int fd, const char *path, int flags) {
  if (fd < 0 || fd >= MAX_FD) return fd;
  pthread_mutex_lock(&lock);
  file_of[fd] = (flags & O_DIRECTORY) ? 0 : (unsigned char)name_of(path);
  if (file_of[fd] && (flags & O_TRUNC)) record(TRUNCATE, file_of[fd], 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return fd;
}

static int open_at(int at, const char *path, int flags, mode_t mode) {
  return opened((int)syscall(SYS_openat, at, path, flags, mode), path, flags);
}

#define OPEN_WITH_MODE(at)                                   \
  mode_t mode = 0;                                           \
  if (flags & (O_CREAT | O_TMPFILE)) {                       \
    va_list rest;                                            \
    va_start(rest, flags);                                   \
    mode = va_arg(rest, mode_t);                             \
    va_end(rest);                                            \
  }                                                          \
  return open_at(at, path, flags, mode);

int open(const char *path, int flags, ...) { OPEN_WITH_MODE(AT_FDCWD) }
int open64(const char *path, int flags, ...) { OPEN_WITH_MODE(AT_FDCWD) }
int openat(int at, const char *path, int flags, ...) { OPEN_WITH_MODE(at) }
int openat64(int at, const char *path, int flags, ...) { OPEN_WITH_MODE(at) }

int close(int fd) {
  if (watched(fd)) file_of[fd] = 0;
  return (int)syscall(SYS_close, fd);
}

static ssize_t write_at(int fd, const void *data, size_t length, off_t offset) {
  int file = watched(fd);
  if (!file) return syscall(SYS_pwrite64, fd, data, length, offset);
  pthread_mutex_lock(&lock);
  ssize_t done = fails(file, WRITE) ? -1 : syscall(SYS_pwrite64, fd, data, length, offset);
  if (done > 0) record(WRITE, file, (uint64_t)offset, data, (uint32_t)done);
  pthread_mutex_unlock(&lock);
  return done;
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return write_at(fd, data, length, offset); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return write_at(fd, data, length, offset); }

static ssize_t read_at(int fd, void *data, size_t length, off_t offset) {
  int file = watched(fd);
  pthread_mutex_lock(&lock);
  int failed = file && fails(file, READ);
  pthread_mutex_unlock(&lock);
  return failed ? -1 : syscall(SYS_pread64, fd, data, length, offset);
}
ssize_t pread(int fd, void *data, size_t length, off_t offset) { return read_at(fd, data, length, offset); }
ssize_t pread64(int fd, void *data, size_t length, off64_t offset) { return read_at(fd, data, length, offset); }

ssize_t write(int fd, const void *data, size_t length) {
  int file = watched(fd);
  if (!file) return syscall(SYS_write, fd, data, length);
  pthread_mutex_lock(&lock);
  ssize_t done = fails(file, WRITE) ? -1 : syscall(SYS_write, fd, data, length);
  /* The position after it, for files that are appended to as well. */
  if (done > 0) record(WRITE, file, (uint64_t)(syscall(SYS_lseek, fd, 0, SEEK_CUR) - done), data, (uint32_t)done);
  pthread_mutex_unlock(&lock);
  return done;
}

static int truncate_to(int fd, off_t size) {
  int file = watched(fd);
  if (!file) return (int)syscall(SYS_ftruncate, fd, size);
  pthread_mutex_lock(&lock);
  int done = fails(file, TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
  if (done == 0) record(TRUNCATE, file, (uint64_t)size, NULL, 0);
  pthread_mutex_unlock(&lock);
  return done;
}
int ftruncate(int fd, off_t size) { return truncate_to(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncate_to(fd, size); }

static int sync_with(long call, int fd) {
  int file = watched(fd);
  if (!file) return (int)syscall(call, fd);
  pthread_mutex_lock(&lock);
  /* In the replay it counts as done from here on; the real one only costs time. */
  int done = fails(file, SYNC) ? -1 : 0;
  record(done == 0 ? SYNC : UNSYNCED, file, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return done;
}
int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

static int removed(int done, const char *path) {
  if (done != 0) return done;
  pthread_mutex_lock(&lock);
  int file = name_of(path);
  if (file) record(REMOVE, file, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return done;
}
int unlink(const char *path) { return removed((int)syscall(SYS_unlinkat, AT_FDCWD, path, 0), path); }
