# Results of dpinfer in R, as data frames in the manner of broom.
#
# A saved result, the result.json of a fit, is read without Python; this needs the package jsonlite:
#
#   x <- read_dpinfer("release/result.json")
#   tidy(x)
#   glance(x)
#
# A result that is alive in Python, by reticulate, has the same two methods, and as_frame() makes a data frame of any
# table that it gives. docs/howto/from-r.md of dpinfer shows both.

# broom and generics have these two names: where one of them is attached, its generics find the methods below.
if (!exists("tidy", mode = "function")) tidy <- function(x, ...) UseMethod("tidy")
if (!exists("glance", mode = "function")) glance <- function(x, ...) UseMethod("glance")

.dpinfer_formats <- 5 # versions of the format that this file knows

read_dpinfer <- function(path) {
  saved <- jsonlite::fromJSON(path, simplifyVector = FALSE)
  if (!identical(saved$format, "dpinfer.FitResult")) {
    stop("not a saved result of dpinfer: give the result.json of a fit")
  }
  if (!(saved$version %in% .dpinfer_formats)) {
    stop("a result of version ", saved$version, ", and this file reads ", .dpinfer_formats, ": take that of your dpinfer")
  }
  structure(saved, class = "dpinfer")
}

# One number or text, NA where there is none.
.one <- function(value, missing = NA_real_) if (is.null(value)) missing else value

.column <- function(rows, key, missing = NA_real_) {
  vapply(rows, function(row) .one(row[[key]], missing), missing)
}

.old_status <- "^open: (in the model, but )?" # how the status of what is not reported began in earlier versions

# One row per coefficient, with intervals of the level that the file shows, 95 %. NA stands where a coefficient has no
# interval, and status says why.
tidy.dpinfer <- function(x, ...) {
  rows <- x$reading$coefficients[seq_along(x$names)] # behind them is the ordinary intercept
  terms <- .column(rows, "name", NA_character_)
  labels <- .column(rows, "label", NA_character_) # not in results of earlier versions
  data.frame(
    term = terms,
    estimate = .column(rows, "estimate"),
    std.error = .column(rows, "std_error"),
    statistic = .column(rows, "z"),
    p.value = .column(rows, "p_value"),
    conf.low = .column(rows, "low"),
    conf.high = .column(rows, "high"),
    noise.share = .column(rows, "noise_share"),
    clipped.to = .column(rows, "clipped_to", ""), # not in results of earlier versions
    status = sub(.old_status, "not reported: ", .column(rows, "status", NA_character_)),
    label = ifelse(is.na(labels), terms, labels)
  )
}

# The fit in one row. nobs is NA where the number of records is private; usable is what was released of it, noisy.
glance.dpinfer <- function(x, ...) {
  budget <- x$privacy$budget
  pure <- identical(budget$kind, "PureDP")
  name <- .one(x$model$words$name, "")
  data.frame(
    model = if (nzchar(name)) name else x$model$loss,
    target = sub("^asked$", "ordinary", x$model$target), # the name in files
    outcome = .one(x$question$outcome, ""),
    formula = .one(x$reading$asked, ""),
    nobs = as.numeric(.one(x$model$n)),
    usable = as.numeric(.one(x$geometry$records)),
    coefficients = length(x$names),
    without.interval = sum(tidy.dpinfer(x)$status != "reported"),
    epsilon = as.numeric(.one(budget$epsilon)),
    delta = as.numeric(if (pure) 0 else .one(budget$delta)),
    rho = as.numeric(.one(budget$rho)),
    unit = x$privacy$unit,
    neighbours = as.character(x$privacy$neighbours),
    private = x$privacy$private,
    booked = x$privacy$booked,
    release = .one(x$privacy$release, ""),
    conf.level = x$reading$level
  )
}

print.dpinfer <- function(x, ...) {
  fit <- glance.dpinfer(x)
  cat(fit$formula, "\n", fit$model, ", protects ", fit$unit, "\n\n", sep = "")
  if (!fit$private) cat("NOT PRIVATE: do not publish.\n\n")
  shown <- tidy.dpinfer(x)[c("term", "estimate", "conf.low", "conf.high", "p.value", "status")]
  shown$status <- sub(":.*", "", shown$status) # tidy() has the whole sentence
  print(shown)
  invisible(x)
}

# A pandas data frame as one of R, whatever the versions of pandas and reticulate: some convert it before it comes here,
# others do not. An index with a name, such as that of coefficients, is the first column; no number is NA.
as_frame <- function(frame) {
  if (is.data.frame(frame)) {
    index <- .in_r(attr(frame, "pandas.index")$name)
    if (!is.null(index)) frame <- cbind(stats::setNames(data.frame(rownames(frame)), index), frame)
    rownames(frame) <- NULL
  } else {
    if (!is.null(.in_r(frame$index$name))) frame <- frame$reset_index()
    ordered <- unlist(.in_r(frame$columns$tolist()))
    frame <- as.data.frame(lapply(.in_r(frame$to_dict("list")), .vector), check.names = FALSE)[ordered]
  }
  for (name in names(frame)[vapply(frame, is.numeric, NA)]) frame[[name]][is.nan(frame[[name]])] <- NA
  attr(frame, "pandas.index") <- NULL
  frame
}

# Values of several types, or none, such as levels: texts then, and NA where there is none.
.vector <- function(values) {
  if (!is.list(values)) return(values)
  values[vapply(values, is.null, NA)] <- NA
  unlist(values)
}

.in_r <- function(value) {
  if (inherits(value, "python.builtin.object")) reticulate::py_to_r(value) else value
}

.with_dots <- function(frame) {
  names(frame) <- gsub("_", ".", names(frame), fixed = TRUE)
  frame
}

# Of results that are alive in Python. Their intervals have any level.
tidy.dpinfer.result.result.FitResult <- function(x, conf.level = 0.95, ...) {
  found <- .with_dots(as_frame(x$tidy(conf.level)))
  for (name in c("conf.low", "conf.high")) found[[name]][is.infinite(found[[name]])] <- NA
  found
}

glance.dpinfer.result.result.FitResult <- function(x, conf.level = 0.95, ...) {
  cbind(.with_dots(as_frame(x$glance())), conf.level = conf.level)
}
