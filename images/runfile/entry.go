package runfile

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// entry parses one line:
//
//	FILE MODE TYPE [NATIVE|COMPAT32] [CLASSIC|NEW] [PATH|INHERIT_PATH_DEPTH:n] [TARGET]
//	    [GLVND|NON_GLVND] [MODULE:tag]
//
// TYPE alone decides which of the optional words exist.
func (m *Manifest) entry(line int, text string) (Entry, error) {
	e := Entry{Line: line}
	if !printable(text) {
		return e, m.errorf(e, "the line holds unprintable bytes")
	}
	words := strings.Fields(text)
	e.File = words[0]
	if len(words) < 3 {
		return e, m.errorf(e, "the line has %d words where FILE MODE TYPE are the least", len(words))
	}
	e.Type = words[2]
	r, known := lookupRule(e.Type)
	if !known {
		return e, m.errorf(e, "unknown type: %s", m.whyUnknown())
	}
	clean, err := cleanName(e.File)
	if err != nil {
		return e, m.errorf(e, "its name %v", err)
	}
	e.File = clean
	if e.Mode, err = parseMode(words[1]); err != nil {
		return e, m.errorf(e, "mode %q is not octal", clip(words[1]))
	}
	if e.Mode&^fs.ModePerm != 0 && e.Type != "NVIDIA_MODPROBE" {
		return e, m.errorf(e, "mode %s: only nvidia-modprobe may have set-uid, set-gid or sticky bits", clip(words[1]))
	}
	words = words[3:]
	if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "MODULE:") {
		e.Tag = strings.TrimPrefix(words[n-1], "MODULE:")
		words = words[:n-1]
	}
	if reason := e.assign(r.fields, words); reason != "" {
		return e, m.errorf(e, "%s", reason)
	}
	if e.Link() {
		e.Mode = 0
	}
	return e, nil
}

// oldestDriver is the branch that the table of types begins with.
const oldestDriver = 384

// whyUnknown says what a type means that is not in the table: the driver is older than the table, or newer.
func (m *Manifest) whyUnknown() string {
	branch, _, _ := strings.Cut(m.Version, ".")
	if n, err := strconv.Atoi(branch); err == nil && n < oldestDriver {
		return fmt.Sprintf("driver %s is too old: this program reads drivers from %d on", clip(m.Version), oldestDriver)
	}
	return "this driver needs a newer version of this program"
}

func parseMode(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 12)
	if err != nil {
		return 0, err
	}
	mode := fs.FileMode(n) & fs.ModePerm
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			mode |= flag
		}
	}
	return mode, nil
}

// assign assigns the words after TYPE to the fields of the entry, in the order of the type's field letters.
// It returns the mistake in them, or "".
func (e *Entry) assign(fields string, words []string) (reason string) {
	for i, f := range []byte(fields) {
		if len(words) == 0 {
			if f >= 'a' {
				continue
			}
			return "the line lacks its " + fieldNames[f]
		}
		word := words[0]
		switch f {
		case 'A', 'a':
			e.Arch = choose(word, Native, Compat32)
			if e.Arch == "" && f == 'A' {
				return strconv.Quote(clip(word)) + " is neither NATIVE nor COMPAT32"
			}
			if e.Arch == "" {
				continue
			}
		case 'c':
			if e.TLS = choose(word, "CLASSIC", "NEW"); e.TLS == "" {
				continue
			}
		case 'g':
			if e.GLVND = choose(word, "GLVND", "NON_GLVND"); e.GLVND == "" {
				continue
			}
		case 'p':
			// Absent when the mandatory fields after it need the remaining words.
			if len(words) <= mandatory(fields[i+1:]) {
				continue
			}
			e.Path = word
		case 'P':
			e.Path = word
		case 'L':
			e.Target = word
		case 'D':
			depth, err := strconv.ParseUint(strings.TrimPrefix(word, "INHERIT_PATH_DEPTH:"), 10, 8)
			if err != nil || !strings.HasPrefix(word, "INHERIT_PATH_DEPTH:") || depth > maxPathDepth {
				return strconv.Quote(clip(word)) + " is not INHERIT_PATH_DEPTH:n"
			}
			e.Depth = int(depth)
		}
		words = words[1:]
	}
	if len(words) > 0 {
		return "unexpected word " + strconv.Quote(clip(words[0])) + " in the line"
	}
	return ""
}

var fieldNames = map[byte]string{'A': "NATIVE or COMPAT32", 'P': "path", 'D': "INHERIT_PATH_DEPTH:n", 'L': "link target"}

// mandatory counts the capital letters.
func mandatory(fields string) (n int) {
	for _, f := range []byte(fields) {
		if f < 'a' {
			n++
		}
	}
	return n
}

// choose returns word when it is one of the two, and the zero value otherwise.
func choose[T ~string](word string, a, b T) T {
	if T(word) == a || T(word) == b {
		return T(word)
	}
	return ""
}
