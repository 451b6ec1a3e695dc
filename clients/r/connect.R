# A desk on a network from R: questions to records that nobody here may see, answers as data frames in the manner of broom.
#
#   source("dpinfer.R")
#   source("connect.R")
#   site <- desk_connect("https://stats.example.org") # the token is in DPINFER_TOKEN
#   desk_tables(site)
#   asked <- desk_ask(site, "visits", visit ~ age + health, epsilon = 1, delta = 1e-6)
#   tidy(desk_wait(asked))
#
# It needs the packages httr2 and jsonlite, and dpinfer.R beside it. docs/howto/connect.md of dpinfer shows all of it.

.desk_tries <- 6
.desk_first_wait <- 0.25 # seconds before it is tried again; then twice as long each time
.desk_longest_wait <- 60

# A desk at an address, for the owner of a token. cafile names the certificates of an authority of your own.
desk_connect <- function(url, token = Sys.getenv("DPINFER_TOKEN"), cafile = NULL, timeout = 30) {
  url <- sub("/+$", "", url)
  loopback <- "^http://(localhost|127(\\.[0-9]{1,3}){3}|\\[::1\\])(:[0-9]+)?(/|$)"
  if (!grepl("^https://[^/@?#]+(/[^?#]*)?$", url) && !grepl(loopback, url)) {
    stop("over http:// everybody on the way could read the token: give an address that begins with https://", call. = FALSE)
  }
  if (!nzchar(token)) {
    stop("a desk on a network needs a token: give the one that its page has made for you, or set DPINFER_TOKEN", call. = FALSE)
  }
  hidden <- function() token # a list that is printed does not show it
  structure(list(url = url, token = hidden, cafile = cafile, timeout = timeout), class = "dpinfer_desk")
}

print.dpinfer_desk <- function(x, ...) {
  cat("<desk at ", x$url, ">\n", sep = "")
  invisible(x)
}

# One call: its status, what came back as a text, and after how many seconds to look again. Whatever is called twice does
# what it does once, so it is tried again where the line breaks off or the desk is busy.
.desk_call <- function(site, method, path, body = NULL, query = list()) {
  call <- httr2::request(paste0(site$url, "/api/v1", path))
  call <- httr2::req_method(call, method)
  call <- httr2::req_auth_bearer_token(call, site$token())
  call <- httr2::req_timeout(call, site$timeout)
  call <- httr2::req_options(call, followlocation = 0L) # no token goes elsewhere
  call <- httr2::req_error(call, is_error = function(answer) FALSE)
  if (length(query) > 0) call <- httr2::req_url_query(call, !!!query)
  if (!is.null(body)) call <- httr2::req_body_json(call, body, auto_unbox = TRUE, digits = NA)
  if (!is.null(site$cafile)) call <- httr2::req_options(call, cainfo = site$cafile)
  wait <- .desk_first_wait
  for (left in rev(seq_len(.desk_tries) - 1)) {
    answer <- tryCatch(httr2::req_perform(call), error = function(fault) fault)
    if (inherits(answer, "error")) {
      words <- conditionMessage(answer)
      if (!is.null(answer$parent)) words <- conditionMessage(answer$parent)
      if (left == 0 || grepl("certificate|SSL", words)) {
        stop("the desk cannot be reached (", words, "): check the address and the network", call. = FALSE)
      }
      Sys.sleep(wait * stats::runif(1, 0.5, 1.5))
    } else {
      later <- suppressWarnings(as.numeric(.one(httr2::resp_header(answer, "retry-after"))))
      pause <- if (is.na(later)) wait else later
      busy <- httr2::resp_status(answer) %in% c(429, 503)
      if (!busy || left == 0 || pause > .desk_longest_wait) {
        text <- tryCatch(httr2::resp_body_string(answer, "UTF-8"), error = function(fault) "") # there may be none
        return(list(status = httr2::resp_status(answer), text = text, later = later))
      }
      Sys.sleep(pause)
    }
    wait <- 2 * wait
  }
}

# The same of a call that has to succeed, as a list.
.desk_good <- function(...) .desk_read(.desk_call(...))

.desk_read <- function(answer) {
  if (answer$status >= 300) .desk_stop(answer)
  jsonlite::fromJSON(answer$text, simplifyVector = FALSE)
}

.desk_stop <- function(answer) {
  found <- tryCatch(jsonlite::fromJSON(answer$text, simplifyVector = FALSE), error = function(fault) NULL)
  if (!is.list(found) || is.null(found$error)) {
    stop("the server answered ", answer$status, ", and not as a desk does: check the address", call. = FALSE)
  }
  words <- c(found$error, found$remedy)
  stop(structure(
    class = c(paste0("dpinfer_", found$code), "dpinfer_error", "error", "condition"),
    list(message = paste(words[nzchar(words)], collapse = ": "), call = NULL)
  ))
}

.desk_part <- function(name) utils::URLencode(name, reserved = TRUE)

.desk_rows <- function(rows, texts, numbers = character()) {
  columns <- lapply(stats::setNames(nm = texts), function(key) .column(rows, key, NA_character_))
  more <- lapply(stats::setNames(nm = numbers), function(key) {
    vapply(rows, function(row) as.numeric(.one(row[[key]])), NA_real_)
  })
  data.frame(columns, more)
}

# The tables that may be asked, one row each; records is NA where their number is private.
desk_tables <- function(site) {
  .desk_rows(.desk_good(site, "GET", "/tables")$tables, c("name", "title", "unit", "state"), "records")
}

# Everything that is public about a table: schema (TOML), policy, slots, account, allowance.
desk_table <- function(site, table) .desk_good(site, "GET", paste0("/tables/", .desk_part(table)))

# A question by its keys: formula, epsilon with delta or rho, and loss, target, level, title and so on.
.desk_question <- function(formula, ...) {
  if (inherits(formula, "formula")) formula <- paste(deparse(formula, width.cutoff = 500L), collapse = " ")
  keys <- list(formula = formula, ...)
  keys[!vapply(keys, is.null, NA)]
}

# What asking would cost, and whether it would be paid; nothing is booked.
desk_check <- function(site, table, formula, ...) {
  path <- paste0("/tables/", .desk_part(table), "/check")
  found <- .desk_good(site, "POST", path, .desk_question(formula, ...))
  for (key in c("names", "answered")) found[[key]] <- as.character(unlist(found[[key]]))
  found
}

# Ask. What is sent twice with one key is asked once. again asks, and pays, what was answered or lost before; anyway what
# could print next to nothing.
desk_ask <- function(site, table, formula, ..., key = NULL, again = FALSE, anyway = FALSE) {
  if (is.null(key)) key <- paste(sprintf("%02x", as.integer(.desk_random(16))), collapse = "")
  path <- paste0("/tables/", .desk_part(table), "/questions/", .desk_part(key))
  query <- list(again = if (again) "true", anyway = if (anyway) "true")
  query <- query[!vapply(query, is.null, NA)]
  .desk_asked(site, .desk_good(site, "PUT", path, .desk_question(formula, ...), query))
}

# Random bytes that no seed of an analysis decides: two scripts with one seed ask two questions.
.desk_random <- function(number) {
  source <- file("/dev/urandom", "rb", raw = TRUE)
  on.exit(close(source))
  readBin(source, "raw", number)
}

.desk_asked <- function(site, found) structure(c(found, list(site = site)), class = "dpinfer_asked")

print.dpinfer_asked <- function(x, ...) {
  cat("<question ", substr(x$id, 1, 12), ": ", x$question$formula, ", ", x$state, ">\n", sep = "")
  invisible(x)
}

# A question of one's own by its id, as it stands now.
desk_question <- function(site, id) .desk_asked(site, .desk_good(site, "GET", paste0("/questions/", .desk_part(id))))

# What was asked, newest first.
desk_questions <- function(site) {
  found <- .desk_good(site, "GET", "/questions")$questions
  formulas <- vapply(found, function(one) one$question$formula, "")
  cbind(.desk_rows(found, c("id", "table", "state", "asked"), "cost"), formula = formulas)
}

# Take a question back before it is booked; that is free.
desk_withdraw <- function(asked) {
  .desk_asked(asked$site, .desk_good(asked$site, "DELETE", paste0("/questions/", asked$id)))
}

# The result, when its time has come: tidy(), glance() and print() are those of read_dpinfer(). What is lost, and what will
# never be answered, is an error.
desk_wait <- function(asked, timeout = Inf) {
  until <- Sys.time() + min(timeout, 1e9)
  repeat {
    answer <- .desk_call(asked$site, "GET", paste0("/questions/", asked$id, "/result.json"))
    if (answer$status != 425) break
    pause <- if (is.na(answer$later)) 2 else answer$later
    if (Sys.time() + pause > until) stop("the answer is not there yet: wait again, it is asked once", call. = FALSE)
    Sys.sleep(pause)
  }
  if (answer$status != 200) .desk_stop(answer)
  read_dpinfer(answer$text)
}

# Past answers at a table that are free to read, newest first; desk_answer() reads one of them.
desk_answers <- function(site, table) {
  found <- .desk_good(site, "GET", paste0("/tables/", .desk_part(table), "/answers"))$answers
  formulas <- vapply(found, function(one) one$question$formula, "")
  cbind(.desk_rows(found, c("id", "shown", "release"), "cost"), formula = formulas)
}

desk_answer <- function(site, id) desk_wait(list(site = site, id = id), timeout = 0)

# Moment releases of a table: the columns of each by its id, newest first.
desk_releases <- function(site, table) {
  found <- .desk_good(site, "GET", paste0("/tables/", .desk_part(table), "/releases"))$releases
  .desk_rows(found, c("release", "declared"), c("price", "effective"))
}

# One question of a moment release, at once and at no cost: a formula gives a result as read_dpinfer() does, a figure such as
# "mean(age)", "correlation(age, income)" or "r_squared(income ~ age)" a data frame of one row. The newest release is asked.
desk_moments <- function(site, table, question, release = desk_releases(site, table)$release[1], level = 0.95) {
  if (inherits(question, "formula")) question <- paste(deparse(question, width.cutoff = 500L), collapse = " ")
  if (is.null(release) || is.na(release)) stop("this table has no moment release: ask the steward to publish one", call. = FALSE)
  path <- paste0("/tables/", .desk_part(table), "/releases/", .desk_part(release), "/answers")
  found <- .desk_good(site, "POST", path, list(question = question, level = level))
  if (!is.null(found$result)) return(structure(found$result, class = "dpinfer"))
  figure <- found$figure
  data.frame(
    name = figure$name, estimate = .one(figure$estimate), std.error = .one(figure$std_error),
    conf.low = .one(figure$low), conf.high = .one(figure$high), status = figure$status
  )
}
