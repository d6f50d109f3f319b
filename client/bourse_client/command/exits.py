"""The command's exit statuses, and the error for mistakes in what was typed."""

DONE, REFUSED, USAGE, UNREACHABLE, NOT_ALLOWED, ENDED_BADLY, STILL_WAITING, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130
CODES = """exit status:
  0    done
  1    refused; the reason is on standard error
  2    the command, the job's file or the settings cannot be used
  3    no answer: not reachable, broken, or too busy for too long
  4    not allowed: the token does not work, or may not do this
  5    with --wait: the job ended, and not well
  6    with --wait --timeout: the time is over, the job is not
  130  interrupted (129 and 143: ended by SIGHUP or SIGTERM)"""
SIGNAL = 128  # and the number of the signal that ended the command


class UsageError(Exception):
    """A mistake in what was typed. The text is a sentence for the person who typed it."""
