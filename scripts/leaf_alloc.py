"""leaf_alloc - read and check the rows of Leaf's table leaf_alloc, in the forms MySQL hands out.

The happy path: read_rows() finds out the format and gives the rows as bytes with their places in
the file; check_rows() holds them against the rules of leafd's tags.

Failure modes: a row that cannot be understood is named with its line and the others are read on, so
that all errors are seen at once; ReadError where the file as a whole makes no sense or is cut off.
Nothing is guessed that would change a name or a number.
"""
import collections
import re

NAME_BYTES = 128
DESCRIPTION_BYTES = 256
MAX_ID_END = 2**63 - 1
STEP_MAX = 1_000_000_000
COLUMNS = ["biz_tag", "max_id", "step", "description", "update_time"]
NEEDED = ["biz_tag", "max_id", "step"]
FORMATS = ["sql", "tsv", "outfile", "csv", "csv-doubled", "csv-backslash"]

# A row as it was read: where ("line 7"), and the bytes of each column, or None for NULL.
Row = collections.namedtuple("Row", "place values")
# A checked row.
Tag = collections.namedtuple("Tag", "place name max_id step description")


class ReadError(Exception):
    """The file cannot be understood at all; the text says where and why."""


# --- SQL dumps -----------------------------------------------------------------------------------

TOKEN = re.compile(rb"""
    (?P<skip>\s+|--(?=\s|$)[^\n]*|\#[^\n]*|/\*.*?\*/)
  | (?P<string>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>0[xX][0-9A-Fa-f]+|[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)
  | (?P<word>[A-Za-z_\x80-\xff][\w$\x80-\xff]*)
  | (?P<char>.)
""", re.S | re.X)
ESCAPES = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a",
           b"%": b"\\%", b"_": b"\\_"}  # the last two keep their backslash, as in MySQL
CHARSETS = {"binary": "utf-8", "utf8": "utf-8", "utf8mb3": "utf-8", "utf8mb4": "utf-8",
            "ascii": "utf-8", "latin1": "cp1252"}
NOT_A_COLUMN = {"primary", "key", "unique", "index", "constraint", "fulltext", "spatial", "check",
                "foreign", "period"}

Token = collections.namedtuple("Token", "kind text line")
END = Token("end", b"", 0)


def unquote_sql(text):
    """The bytes of a quoted SQL string."""
    quote = text[:1]
    return re.sub(rb"\\(.)|" + quote + quote,
                  lambda match: quote if match.group(1) is None
                  else ESCAPES.get(match.group(1), match.group(1)), text[1:-1], flags=re.S)


class SqlReader:
    """The rows of one table in a dump."""

    def __init__(self, data, table):
        self.data = data
        self.table = table.lower()
        self.columns = list(COLUMNS)
        self.at = 0
        self.line = 1
        self.rows = []
        self.errors = []
        self.tables = []

    def next(self):
        """The next token that means something; END after the last."""
        while self.at < len(self.data):
            match = TOKEN.match(self.data, self.at)
            kind, text, line = match.lastgroup, match.group(), self.line
            self.at = match.end()
            self.line += text.count(b"\n")
            if kind == "skip":
                continue
            if kind == "char" and (text in b"'\"`" or self.data[self.at - 1:self.at + 1] == b"/*"):
                raise ReadError(f"line {line}: what {text.decode()} opens is never closed; is the "
                                "file cut off?")
            return Token(kind, text, line)
        return END

    def skip_delimited(self):
        """DELIMITER ;; begins the bodies of triggers and procedures, DELIMITER ; ends them."""
        found = re.compile(rb"^[ \t]*DELIMITER[ \t]+;[ \t]*\r?$", re.I | re.M).search(
            self.data, self.at)
        stop = found.end() if found else len(self.data)
        self.line += self.data.count(b"\n", self.at, stop)
        self.at = stop

    def name(self, token):
        """The text of an identifier."""
        text = token.text[1:-1].replace(b"``", b"`") if token.kind == "quoted" else token.text
        return text.decode("utf-8", "replace").lower()

    def table_name(self, token):
        """The table's name of [database.]table; returns (name, token after it)."""
        name = self.name(token)
        token = self.next()
        while token.text == b".":
            name = self.name(self.next())
            token = self.next()
        return name, token

    def skip_statement(self, token):
        while token is not END and token.text != b";":
            token = self.next()

    def read(self):
        """Read the dump: self.rows, and self.errors for what cannot be understood."""
        self.check_charset()
        while (token := self.next()) is not END:
            word = token.text.upper() if token.kind == "word" else b""
            if word in (b"INSERT", b"REPLACE"):
                self.read_insert()
            elif word == b"CREATE":
                self.read_create()
            elif word == b"DELIMITER":
                self.skip_delimited()
            else:
                self.skip_statement(token)
        if not self.rows and not self.errors:
            found = ", ".join(sorted(set(self.tables))) or "none"
            raise ReadError(f"no rows of a table {self.table} (tables with rows: {found})")

    def check_charset(self):
        """mysqldump writes utf8mb4 unless told otherwise, and says so in its head."""
        match = re.search(rb"^(?:/\*!\d+ )?SET NAMES '?(\w+)", self.data, re.M)
        charset = match.group(1).decode().lower() if match else "utf8mb4"
        if CHARSETS.get(charset) != "utf-8" and not self.data.isascii():
            raise ReadError(f"the dump is in {charset}; make it with mysqldump "
                            "--default-character-set=utf8mb4")

    def read_create(self):
        """CREATE TABLE gives the order of the columns for INSERTs that name none."""
        token = self.next()
        if token.text.upper() != b"TABLE":
            return self.skip_statement(token)
        token = self.next()
        while token.text.upper() in (b"IF", b"NOT", b"EXISTS"):
            token = self.next()
        name, token = self.table_name(token)
        if name == self.table and token.text == b"(":
            columns = []
            depth = 1
            first = True  # of an item in the list of columns and keys
            while depth and (token := self.next()) is not END:
                if first and depth == 1 and (token.kind == "quoted" or token.kind == "word"
                                             and self.name(token) not in NOT_A_COLUMN):
                    columns.append(self.name(token))
                depth += (token.text == b"(") - (token.text == b")")
                first = depth == 1 and token.text == b","
            lacking = [column for column in NEEDED if column not in columns]
            if lacking:
                raise ReadError(f"line {token.line}: the table {name} has no column {lacking[0]}")
            self.columns = columns
        self.skip_statement(token)

    def read_insert(self):
        """INSERT or REPLACE, of any table."""
        token = self.next()
        while token.kind == "word" and token.text.upper() in (
                b"INTO", b"IGNORE", b"LOW_PRIORITY", b"HIGH_PRIORITY", b"DELAYED"):
            token = self.next()
        name, token = self.table_name(token)
        self.tables.append(name)
        if name != self.table:
            return self.skip_statement(token)
        columns = self.columns
        if token.text == b"(":
            columns = []
            while token is not END and token.text != b")":
                token = self.next()
                if token.kind in ("word", "quoted"):
                    columns.append(self.name(token))
            token = self.next()
        lacking = [column for column in NEEDED if column not in columns]
        if lacking or token.text.upper() not in (b"VALUES", b"VALUE"):
            why = f"without the column {lacking[0]}" if lacking else "without VALUES"
            self.errors.append(f"line {token.line}: an INSERT {why}")
            return self.skip_statement(token)
        token = self.next()
        number = 0
        while token.text == b"(":
            number += 1
            self.read_row(columns, f"line {token.line}, row {number}")
            token = self.next()
            if token.text == b",":
                token = self.next()
        if token is END:
            raise ReadError("the last INSERT has no ';' at its end: the file is cut off")
        self.skip_statement(token)

    def read_row(self, columns, place):
        """One (value, ...) after its opening parenthesis."""
        values = []
        wrong = None
        while True:
            value, token, why = self.read_value()
            values.append(value)
            if why and len(values) <= len(columns) and columns[len(values) - 1] in COLUMNS[:4]:
                wrong = wrong or f"{columns[len(values) - 1]}: {why}"
            if token is END:
                raise ReadError(f"{place}: this row does not end: the file is cut off")
            if token.text == b")":
                break
        if len(values) != len(columns):
            wrong = f"{len(values)} values for {len(columns)} columns"
        if wrong:
            self.errors.append(f"{place}: {wrong}")
            return
        self.rows.append(Row(place, dict(zip(columns, values))))

    def read_value(self):
        """(bytes or None, the token after it, why it cannot be understood or None)."""
        token = self.next()
        introducer = None
        if token.kind == "word" and (token.text[:1] == b"_" or token.text.upper() in (b"N", b"X")):
            introducer = token.text.decode("utf-8", "replace").lower()
            token = self.next()
        value, why = literal(token, introducer)
        if token.text in (b",", b")") and token.kind == "char":
            return None, token, "a value is missing"
        depth = token.text == b"("
        # What follows up to the comma belongs to an expression, as in current_timestamp().
        token = self.next()
        while token is not END and (depth or token.text not in (b",", b")")):
            depth += (token.text == b"(") - (token.text == b")")
            why = why or "an expression, not a literal value"
            token = self.next()
        return value, token, why


def literal(token, introducer):
    """(bytes or None for NULL, why it is no literal) of a token; introducer: _utf8mb4, n, x, ..."""
    charset = CHARSETS.get(introducer[1:]) if introducer and introducer[0] == "_" else "utf-8"
    if charset is None:
        return None, f"in the character set {introducer[1:]}, not utf8mb4, latin1 or binary"
    if token.kind == "string":
        value = unquote_sql(token.text)
    elif token.kind == "number":
        value = token.text
    elif token.text.upper() == b"NULL" and introducer is None:
        return None, None
    else:
        return None, f"'{token.text.decode('utf-8', 'replace')}' is no literal value"
    if introducer == "x" or (token.kind == "number" and value[:2].lower() == b"0x"):
        try:
            value = bytes.fromhex(value.decode("ascii")[0 if introducer == "x" else 2:])
        except ValueError:
            return None, f"'{value.decode('utf-8', 'replace')}' is not hexadecimal"
    return (value.decode("cp1252", "replace").encode() if charset == "cp1252" else value), None


# --- text with separators ------------------------------------------------------------------------

TEXT_ESCAPES = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}


def field_pattern(separator, quote, escape):
    """A pattern for a field and what ends it. quote: fields may stand in double quotes; escape: a
    backslash takes away the meaning of what follows."""
    escaped = rb"\\." if escape else rb"(?!)"
    backslash = rb"\\" if escape else b""
    null = rb"\\N" if escape else rb"(?!)"
    quoted = rb'"(?P<quoted>(?:%s|""|[^"%s])*)"' % (escaped, backslash) if quote else (
        rb"(?P<quoted>(?!))")
    plain = rb"%s(?P<plain>(?:%s|[^%s\n\r%s]|\r(?!\n))*)" % (
        rb'(?!")' if quote else b"", escaped, separator, backslash)
    return re.compile(rb"(?:(?P<null>%s)|%s|%s)(?P<end>%s|\r?\n|\Z)" % (
        null, quoted, plain, separator), re.S)


def unescape(text, quote, escape):
    """The bytes that a field's text stands for."""
    pattern = b"|".join(([rb"\\(.)"] if escape else [rb"(?!)()"]) + ([rb'""'] if quote else []))
    return re.sub(pattern, lambda match: b'"' if match.group(1) is None
                  else TEXT_ESCAPES.get(match.group(1), match.group(1)), text, flags=re.S)


def split_records(data, separator, quote, escape):
    """Yield (line, [(bytes or None, was it plain text)]) of each record."""
    pattern = field_pattern(separator, quote, escape)
    at, line, start = 0, 1, 1
    fields = []
    while at < len(data) or fields:
        match = pattern.match(data, at)
        if not match:
            raise ReadError(f"line {line}: a quote is not closed, or text follows a closing quote")
        if match.group("null"):
            fields.append((None, False))
        elif match.group("quoted") is not None:
            fields.append((unescape(match.group("quoted"), True, escape), False))
        else:
            fields.append((unescape(match.group("plain"), False, escape), True))
        line += data.count(b"\n", at, match.end())
        at = match.end()
        if match.group("end") != separator:
            if fields != [(b"", True)]:
                yield start, fields
            fields, start = [], line


def read_separated(data, separator, quote, escape, null_word=None, must_have_names=False):
    """(rows, errors) of text with separators. null_word: plain text that means NULL."""
    columns = None
    rows, errors = [], []
    for line, fields in split_records(data, separator, quote, escape):
        if columns is None:
            names = [(value or b"").decode("utf-8", "replace").strip().lower()
                     for value, _ in fields]
            has_names = all(column in names for column in NEEDED)
            if must_have_names and not has_names:
                raise ReadError(f"line {line}: a line with the column names biz_tag, max_id and "
                                "step was expected")
            columns = names if has_names else COLUMNS
            least = len(names) if has_names else len(NEEDED)
            if has_names:
                continue
        if not least <= len(fields) <= len(columns):
            errors.append(f"line {line}: {len(fields)} values for {len(columns)} columns")
            continue
        row = {column: None if plain and value == null_word else value
               for column, (value, plain) in zip(columns, fields)}
        if row["biz_tag"] is None and fields[columns.index("biz_tag")][1]:
            row["biz_tag"] = null_word  # the column is NOT NULL, so this is a name
        rows.append(Row(f"line {line}", row))
    return rows, errors


def read_csv(data, escape=None):
    """(rows, errors) of CSV, of which there are two dialects: a quote in a field is doubled and a
    backslash is itself, or a backslash comes before both. escape: True for the latter, None if that
    is to be found out."""
    if escape is not None:
        return read_separated(data, b",", True, escape, b"NULL")
    results = []
    for escape in (False, True):
        try:
            results.append(read_separated(data, b",", True, escape, b"NULL"))
        except ReadError as error:
            results.append(([], [str(error)]))
    doubled, backslash = results
    if doubled == backslash or backslash[1]:
        return doubled
    # Both make sense, with different texts. What only one of the dialects writes tells.
    writes_backslash = re.search(rb'\\["\\]|(^|,)\\N\r?(,|$)', data, re.M) is not None
    writes_doubled = re.search(rb'[^,\n"]""[^,\r\n]', data) is not None
    if doubled[1] or (writes_backslash and not writes_doubled):
        return backslash
    if writes_doubled and not writes_backslash:
        return doubled
    raise ReadError("a backslash in this CSV may be an escape or itself; say --format csv-doubled "
                    "(itself) or --format csv-backslash (an escape)")


# --- the file as a whole -------------------------------------------------------------------------

SQL_START = re.compile(rb"\s*(--|/\*|#|(INSERT|REPLACE|CREATE|DROP|SET|USE|LOCK|START|BEGIN|DELETE|"
                       rb"TRUNCATE)\s)", re.I)


def detect_format(data):
    """sql, tsv, outfile or csv."""
    first = data.lstrip().split(b"\n", 1)[0]
    if SQL_START.match(data):
        return "sql"
    if b"\t" in first:
        names = first.strip().lower().split(b"\t")
        return "tsv" if all(name.encode() in names for name in NEEDED) else "outfile"
    if b"," in first:
        return "csv"
    raise ReadError("this is neither a dump, nor columns separated by tabs or commas; see --help")


def read_rows(data, form=None, table="leaf_alloc"):
    """(format, rows, errors) of a file's bytes."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ReadError("the file is in UTF-16; it must be in UTF-8")
    if not data.strip():
        raise ReadError("the file is empty")
    form = form or detect_format(data)
    if form == "sql":
        reader = SqlReader(data, table)
        reader.read()
        return form, reader.rows, reader.errors
    if form.startswith("csv"):
        escapes = {"csv": None, "csv-doubled": False, "csv-backslash": True}
        return (form, *read_csv(data, escapes[form]))
    null_word = b"NULL" if form == "tsv" else None
    return (form, *read_separated(data, b"\t", False, True, null_word, form == "tsv"))


def cut_off_warning(data):
    """What to say of a dump that ends without mysqldump's last line, or None. Its statements are
    whole, or it would not have been read; but there may have been more of them."""
    begun = re.search(rb"^-- (MySQL|MariaDB) dump ", data[:2000], re.M)
    if begun and b"-- Dump completed" not in data[-2000:]:
        return "the dump has no 'Dump completed' at its end: check that no rows are missing"
    return None


# --- the rules of tags ---------------------------------------------------------------------------


def check_name(value):
    """(name, why it is no name of a tag)."""
    try:
        name = (value or b"").decode("utf-8")
    except UnicodeDecodeError:
        return None, f"biz_tag {value!r} is not UTF-8"
    if not 1 <= len(value or b"") <= NAME_BYTES:
        return None, f"biz_tag '{name}' has {len(value or b'')} bytes, not 1 to {NAME_BYTES}"
    if re.search(r"[\x00-\x1f\x7f-\x9f]", name):
        return None, f"biz_tag {name!r} has a control character"
    return name, None


def check_number(column, value, low, high):
    """(number, why it is none)."""
    text = (value or b"NULL").decode("utf-8", "replace").strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,30}", text) or not low <= int(text) <= high:
        return None, f"{column} is '{text}', not a number from {low} to {high}"
    return int(text), None


def check_description(value, place, name, warnings):
    """The description as leafd can keep it; what had to be changed goes to the warnings."""
    text = (value or b"").decode("utf-8", "replace")
    kept = text.replace("\0", "")
    kept = kept.encode()[:DESCRIPTION_BYTES].decode("utf-8", "ignore")
    if kept.encode() != (value or b""):
        warnings.append(f"{place}: tag '{name}': the description was cut to {DESCRIPTION_BYTES} "
                        "bytes of UTF-8 without NUL")
    return kept


def check_rows(rows):
    """(tags, errors, warnings) of the rows of a file."""
    tags, errors, warnings = [], [], []
    seen, folded = {}, {}
    for place, values in rows:
        name, wrong_name = check_name(values["biz_tag"])
        max_id, wrong_max_id = check_number("max_id", values["max_id"], 0, MAX_ID_END)
        step, wrong_step = check_number("step", values["step"], 1, STEP_MAX)
        wrong = [why for why in (wrong_name, wrong_max_id, wrong_step) if why]
        if name in seen:
            wrong.append(f"tag '{name}' is already in {seen[name]}")
        if wrong:
            errors.append(f"{place}: " + "; ".join(wrong))
            continue
        seen[name] = place
        description = check_description(values.get("description"), place, name, warnings)
        tags.append(Tag(place, name, max_id, step, description))
        if max_id == 0:
            warnings.append(f"{place}: tag '{name}' has max_id 0: its first id will be 0")
        if max_id == MAX_ID_END:
            warnings.append(f"{place}: tag '{name}' is exhausted: it has no id left")
        like = folded.setdefault(name.rstrip(" ").casefold(), name)
        if like != name:
            warnings.append(f"{place}: tags '{like}' and '{name}' differ only in case or spaces at "
                            "the end: for MySQL they may be one, for leafd they are two")
    return tags, errors, warnings
