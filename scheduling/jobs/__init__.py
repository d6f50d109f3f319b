"""Jobs, from their submission to their end: this submits, cancels and finds them, and reads the story of each."""

from scheduling.jobs.arrays import SubmittedArray, array_describe
from scheduling.jobs.cancel_preview import has_begun, slot_running
from scheduling.jobs.cancellation import award_give_up, freed_of, given_up_event, while_running
from scheduling.jobs.describing import (
    JobWording,
    NotUnderstood,
    Understood,
    is_array,
    job_describe,
    job_understood,
)
from scheduling.jobs.intake import Intake
from scheduling.jobs.read_courses import CourseRecord, courses_record, guess
from scheduling.jobs.read_description import description_shown, lines_shown, with_description
from scheduling.jobs.read_estimates import LOOKED_AT, Record, estimates_record
from scheduling.jobs.read_list import jobs_rows, row_view, with_awards
from scheduling.jobs.read_log import LogQuestion, log_found, log_name, log_whole, why_no_log
from scheduling.jobs.read_numbers import numbers_view, series_of
from scheduling.jobs.read_outlook import job_outlook
from scheduling.jobs.read_rows import UNKNOWN_JOB, job_by_id
from scheduling.jobs.read_run import (
    UNKNOWN_RUN,
    NumberedRun,
    curve,
    job_runs,
    numbered_runs,
    predicted_end,
    run_numbered,
)
from scheduling.jobs.submission import (
    Checked,
    InvalidJob,
    Submitted,
    job_checked,
    job_submit,
    lanes_refused,
)

__all__ = [
    "LOOKED_AT",
    "UNKNOWN_JOB",
    "UNKNOWN_RUN",
    "Checked",
    "CourseRecord",
    "Intake",
    "InvalidJob",
    "JobWording",
    "LogQuestion",
    "NotUnderstood",
    "NumberedRun",
    "Record",
    "Submitted",
    "SubmittedArray",
    "Understood",
    "array_describe",
    "award_give_up",
    "courses_record",
    "curve",
    "description_shown",
    "estimates_record",
    "freed_of",
    "given_up_event",
    "guess",
    "has_begun",
    "is_array",
    "job_by_id",
    "job_checked",
    "job_describe",
    "job_outlook",
    "job_runs",
    "job_submit",
    "job_understood",
    "jobs_rows",
    "lanes_refused",
    "lines_shown",
    "log_found",
    "log_name",
    "log_whole",
    "numbered_runs",
    "numbers_view",
    "predicted_end",
    "row_view",
    "run_numbered",
    "series_of",
    "slot_running",
    "while_running",
    "why_no_log",
    "with_awards",
    "with_description",
]
