"""Codes of the market's refusals of a request. Why an accepted job is where it is, is a reason
(`scheduling.reasons`)."""

from __future__ import annotations

from tenants.refusals import FINAL, LATER, RefusalCode


class MarketRefusal(RefusalCode):
    """Refusals about jobs, pools, servers, money, sharing, fairness, webhooks and the demonstration."""

    # Jobs and quotes.
    INVALID_JOB = "invalid_job", FINAL, "the job cannot be as it is written", "The sentence names the field."
    JOBS_REFUSED = (
        "jobs_refused", FINAL, "some of the jobs that were sent together cannot be taken, so none of them is",
        "Mend those that `errors` names by their index, or leave them out.", "jobs", "refused",
    )  # fmt: skip
    UNKNOWN_POOL = "unknown_pool", FINAL, "there is no such pool", "Check the pool's short name."
    POOL_NOT_OPEN = "pool_not_open", LATER, "the pool has not opened yet", "Submit when it opens."
    POOL_DRAINING = "pool_draining", FINAL, "the pool is coming to rest and takes no new jobs", "Choose another pool."
    LANE_CLOSED = "lane_closed", FINAL, "the pool has no instant lane", "Send it to the batch lane."
    MARKET_HELD = (
        "market_held", LATER, "the market is on hold",
        "Send it to the batch lane, or wait until the market goes on.",
    )  # fmt: skip
    COOLING = (
        "cooling", LATER, "the same job was refused there, or taken back, a moment ago",
        "Send it to the batch lane, or wait so many slots.", "slots", "until",
    )  # fmt: skip
    OVER_BUDGET = (
        "over_budget", LATER, "the budget of this period is used up",
        "Have the budget raised, wait for its next period, or forbid the job to rent.", "left",
    )  # fmt: skip
    LARGER_THAN_WINDOW = (
        "larger_than_window", FINAL, "no interval will ever hold the job, nor its own cells while it is worth anything",
        "Let it run in pieces, or save and load faster where it does, allow more workers at once, train fewer epochs, "
        "let it be worth something for longer, or have the pool's intervals made longer.",
        "needs_slots", "window_slots", "enough_workers", "epochs_that_fit", "home_end", "fewest_pieces", "piece_slots",
        "most_save_slots",
    )  # fmt: skip
    NO_PLANS = "no_plans", FINAL, "the pool promises no places at home", ""
    KEY_REUSED = "key_reused", FINAL, "the key was used for something else", "Take a new key for something new."
    UNKNOWN_JOB = "unknown_job", FINAL, "there is no such job, or it is somebody else's", "Check the number."
    ALREADY_OVER = "already_over", FINAL, "the job, or what was sold with it, is over", ""
    COSTS_MORE = (
        "costs_more", FINAL, "a cancellation costs more by now than its page showed, or than its call allows",
        "Look again at what it costs.", "costs", "most",
    )  # fmt: skip
    NOT_REFUSED = (
        "not_refused", FINAL, "the instant lane has not refused the job",
        "Only a job that it refused can wait instead.",
    )  # fmt: skip
    UNKNOWN_RUN = "unknown_run", FINAL, "the job has no run of this number", "The sentence says which it has."
    UNKNOWN_FILE = (
        "unknown_file", FINAL, "the job has no such file, or none that can be sent",
        "List its files. The sentence says where they are gone.",
    )  # fmt: skip
    UNKNOWN_ARCHIVE = (
        "unknown_archive", FINAL, "the files of this version are kept no more, as no job used them for long",
        "Submit the script again, with its files.",
    )  # fmt: skip
    UNKNOWN_VIEW = "unknown_view", FINAL, "there is no such saved view", ""
    TOO_MANY_VIEWS = "too_many_views", FINAL, "too many views are saved", "Remove one first."
    BAD_NAME = "bad_name", FINAL, "a saved view cannot have this name", "Use 1 to 60 characters."
    BAD_QUERY = "bad_query", FINAL, "the filter is too long to be saved", "Filter by less."
    # Pools, servers and cells.
    INVALID_POOL = "invalid_pool", FINAL, "the pool cannot be as it is described", "The sentence says what.", "lane"
    INVALID_RESOURCE = "invalid_resource", FINAL, "a resource cannot have this name", "The sentence says what."
    INVALID_STEP = (
        "invalid_step", FINAL, "a least amount or a step of a resource cannot be this",
        "The sentence says what.",
    )  # fmt: skip
    INVALID_PRICE = "invalid_price", FINAL, "a price of use cannot be this", "The sentence says what."
    NOT_ELASTIC = "not_elastic", FINAL, "the pool is not elastic, so its market makes the prices", ""
    INVALID_SERVER = "invalid_server", FINAL, "the server cannot be as it is described", "The sentence says what."
    INVALID_UNITS = "invalid_units", FINAL, "this is not a number of units", "Use whole numbers, 0 or more."
    CLUSTER_SILENT = "cluster_silent", LATER, "the engine's cluster cannot be asked", "The sentence says why."
    UNKNOWN_SERVER = "unknown_server", FINAL, "the pool has no such server", "Check its name."
    UNKNOWN_RESOURCE = "unknown_resource", FINAL, "the pool has no such resource", "Check its name."
    UNKNOWN_TENANT = "unknown_tenant", FINAL, "there is no such tenant", "Check its short name."
    ABOVE_CAPACITY = (
        "above_capacity", FINAL, "the cells on a server would be more than it has",
        "Give fewer cells there.", "server", "resource", "asked", "capacity",
    )  # fmt: skip
    BELOW_CELLS = (
        "below_cells", FINAL, "the server would have less than its cells",
        "Take cells away first.", "server", "resource", "asked", "cells",
    )  # fmt: skip
    BELOW_PROMISE = (
        "below_promise", LATER, "less would be left than is promised to jobs in some slot to come",
        "Wait until those jobs are over, or drain the server first.", "server", "resource", "left", "promised",
    )  # fmt: skip
    WRONG_STATE = "wrong_state", FINAL, "the server is in another state than this needs", "Change its state first."
    ALREADY_LOST = "already_lost", FINAL, "the server is lost already", "Return it to service first."
    UNKNOWN_AWARD = "unknown_award", FINAL, "there is no such award", ""
    INVALID_SPAN = "invalid_span", FINAL, "too many awards have units in these slots", "Ask for fewer slots at once."
    INVALID_WEIGHTS = "invalid_weights", FINAL, "the weights cannot be used", "The sentence says what."
    NOT_LEARNED = "not_learned", FINAL, "no network decides the pool's slots", "Only an elastic pool of DL2 has one."
    INVALID_LEARNER = "invalid_learner", FINAL, "a learner cannot be set so", "The sentence says what."
    NOT_OFFERED = (
        "not_offered", LATER, "the weights have not beaten those in use, nor decided here before",
        "Wait for the verdict.",
    )  # fmt: skip
    WEIGHTS_MOVED = "weights_moved", LATER, "other weights were put in place meanwhile", "Look again."
    NAME_TAKEN = "name_taken", FINAL, "other weights have this name", "Give these another one."
    # Money, budgets and sharing.
    INVALID_AMOUNT = "invalid_amount", FINAL, "the amount is nothing, or too large", "Use up to a billion credits."
    BEYOND_FUNDS = (
        "beyond_funds", LATER, "more would be paid out than is available",
        "Pay out what is left at most.", "asked", "left",
    )  # fmt: skip
    INVALID_BUDGET = "invalid_budget", FINAL, "the budget cannot be like this", "The sentence says what."
    UNKNOWN_BUDGET = "unknown_budget", FINAL, "there is no such budget", ""
    UNKNOWN_MEMBER = "unknown_member", FINAL, "the person is not a member of the tenant", "Choose a member."
    INVALID_SHARING = (
        "invalid_sharing", FINAL, "the policy of renting and lending cannot be this",
        "The sentence says what.",
    )  # fmt: skip
    # Fairness, verifications and questions.
    INVALID_MEASURE = "invalid_measure", FINAL, "there is no such figure of fairness", ""
    INVALID_THRESHOLD = "invalid_threshold", FINAL, "a limit is a number, zero or more", ""
    UNKNOWN_INTERVAL = "unknown_interval", FINAL, "there is no such interval", "Check the number."
    INVALID_PERIOD = (
        "invalid_period", FINAL, "the period ends before it begins, is too long, or is out of reach",
        "Ask for fewer days, or for others.",
    )  # fmt: skip
    NO_PERIOD = "no_period", FINAL, "the period ends before it begins", "Exchange its ends."
    AUDITS_WAITING = (
        "audits_waiting", LATER, "too many requests of the person are not done yet",
        "Wait for one of them.",
    )  # fmt: skip
    AUDIT_OVER = "audit_over", FINAL, "the request is over", ""
    AUDIT_UNDER_WAY = "audit_under_way", FINAL, "the request is being worked on", "Wait until it is done."
    STILL_VERIFYING = "still_verifying", LATER, "another verification of the person is running", "Wait for its end."
    TOO_LARGE = (
        "too_large", FINAL, "too many jobs, or too many bytes, for a page",
        "Ask for less, or ask an operator to verify it.",
    )  # fmt: skip
    FAILED = "failed", LATER, "the work broke off, or found something wrong", "The sentence says what."
    UNKNOWN_WHAT_IF = "unknown_what_if", FINAL, "there is no such question", "It may have expired: ask again."
    UNKNOWN_FIELD = "unknown_field", FINAL, "this cannot be said otherwise", "The sentence names what can."
    DID_NOT_WAIT = "did_not_wait", FINAL, "the job did not wait in this interval", "Choose an interval in which it did."
    INVALID_VALUE = "invalid_value", FINAL, "the job could not have said this", "The sentence says what."
    NO_CHANGE = "no_change", FINAL, "that is what the job said", "Say something else."
    FLOOR_GIVEN = (
        "floor_given", FINAL, "the job's floor was given in an earlier interval",
        "Ask about that interval.", "interval",
    )  # fmt: skip
    OTHER_SPECIFICATION = "other_specification", FINAL, "the job's row says something else than the interval", ""
    OTHER_CODE = (
        "other_code", FINAL, "another version of the rules decided the interval, and this one decides it otherwise",
        "Ask about a newer one.",
    )  # fmt: skip
    DECIDED_BY_SLOT = "decided_by_slot", FINAL, "an elastic pool decides every slot anew", ""
    ARCHIVED = (
        "archived", FINAL, "the input and the answer of the interval lie in an archive, and no longer in the database",
        "Ask an operator to verify it with the archive.",
    )  # fmt: skip
    UNREADABLE = "unreadable", FINAL, "what is stored of the interval cannot be read", "Verify the interval."
    CHANGED = "changed", FINAL, "what is stored of the interval was changed", "Verify the interval."
    TOO_MANY_OPEN = (
        "too_many_open",
        LATER,
        "too many questions of the person or about the tenant's jobs wait",
        "Wait, or cancel one.",
    )
    TOO_MANY_TODAY = "too_many_today", LATER, "the person asked too many questions within a day", "Ask tomorrow."
    TOO_MANY_IN_ALL = "too_many_in_all", LATER, "too many questions wait in all", "Try again in a minute."
    UNKNOWN_STUDY = "unknown_study", FINAL, "there is no such study", "Check the number."
    INVALID_STUDY = "invalid_study", FINAL, "the study cannot be as it is written", "The sentence names the place."
    STUDY_TOO_LARGE = (
        "study_too_large",
        FINAL,
        "the files of the study are too large",
        "Pack the log with gzip, unless it is.",
    )
    STUDIES_WAITING = "studies_waiting", LATER, "too many studies of the person are not done yet", "Wait for one."
    TOO_MANY_STUDIES = "too_many_studies", LATER, "too many studies are kept", "Remove one first."
    STUDY_NOT_READY = "study_not_ready", LATER, "the study is not waiting to be started", "Look at its state."
    STUDY_NOT_DONE = "study_not_done", LATER, "the study is not done", "Wait until it is."
    STUDY_OVER = "study_over", FINAL, "the study is over", ""
    STUDY_TAKES_LONGER = (
        "study_takes_longer", FINAL, "the study would take too long in the product",
        "Use the command `manage.py lab`.",
    )  # fmt: skip
    TOO_LONG = "too_long", FINAL, "deciding the interval takes too long", "Ask about one with fewer jobs."
    BROKE_OFF = "broke_off", LATER, "working it out broke off twice", "Ask again, or tell the operator."
    WHAT_IF_OVER = "what_if_over", FINAL, "the question is not open any more", ""
    # Programs.
    INVALID_PROGRAM = (
        "invalid_program",
        FINAL,
        "the program cannot be as it is written",
        "The sentence names the field.",
    )
    UNKNOWN_PROGRAM = "unknown_program", FINAL, "there is no such program, or it is somebody else's", "Check its name."
    PROGRAM_EXISTS = (
        "program_exists", FINAL, "there is a program of this name already",
        "Make its next version, or give this one another name.",
    )  # fmt: skip
    PROGRAM_CHANGED = (
        "program_changed", LATER, "another version of the program was registered meanwhile",
        "Look at it, and register yours again if it is still wanted.",
    )  # fmt: skip
    PROGRAMS_NOT_ALLOWED = (
        "programs_not_allowed", FINAL, "the operator has not allowed the tenant to bring programs",
        "Ask the operator.",
    )  # fmt: skip
    TOO_MANY_PROGRAMS = (
        "too_many_programs", FINAL, "the owner has too many programs, versions or bytes of archives",
        "Use the programs that are there.",
    )  # fmt: skip
    INVALID_SECRET = (
        "invalid_secret", FINAL, "the name or the value cannot be a secret's", "The sentence says what can.",
    )  # fmt: skip
    UNKNOWN_SECRET = "unknown_secret", FINAL, "the operator's store has no such secret", "Check its name."
    TOO_MANY_SECRETS = "too_many_secrets", FINAL, "the operator's store is full", "Remove what nobody names."
    # Webhooks.
    INVALID_WEBHOOK_URL = "invalid_webhook_url", FINAL, "this is no address for a webhook", "The sentence says what."
    INVALID_WEBHOOK_KINDS = "invalid_webhook_kinds", FINAL, "there is no such kind of events", "Choose from the list."
    WEBHOOK_ADDRESS_PRIVATE = (
        "webhook_address_private", FINAL, "the address of a webhook is not a public one",
        "Use a public address.",
    )  # fmt: skip
    UNKNOWN_WEBHOOK = "unknown_webhook", FINAL, "there is no such webhook", ""
    UNKNOWN_DELIVERY = "unknown_delivery", FINAL, "there is no such delivery", ""
    WEBHOOK_OFF = "webhook_off", FINAL, "the webhook is switched off", "Switch it on first."
    STILL_WAITING = "still_waiting", LATER, "the delivery still waits for its turn", "Wait for it."
    INVALID_CHAT_FORM = "invalid_chat_form", FINAL, "no such chat tool is known", "Choose from the list."
    UNKNOWN_CHAT_ADDRESS = "unknown_chat_address", FINAL, "there is no address of a chat tool", "Save one first."
    TOO_MANY_WEBHOOKS = "too_many_webhooks", FINAL, "the tenant has too many webhooks", "Remove one first."
    # The demonstration, on the command line.
    NOT_DEBUG = "not_debug", FINAL, "the demonstration loads only where DEBUG is on", ""
    NOT_EMPTY = "not_empty", FINAL, "the database has people or tenants of its own", "Use an empty database."
    NOT_MIGRATED = "not_migrated", FINAL, "the database has no tables yet", "Run manage.py migrate first."
    IN_USE = "in_use", LATER, "somebody has an open transaction on the database", "Try again."
    NOT_DEMO = "not_demo", FINAL, "the database does not hold the demonstration", ""


# The instant lane gives these refusals before it considers a job. The batch lane may still accept the job.
NOT_AT_ONCE = (MarketRefusal.LANE_CLOSED, MarketRefusal.MARKET_HELD, MarketRefusal.COOLING)
