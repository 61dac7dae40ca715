package runfile

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// words are the regular expressions of the letters in rule.fields.
var words = map[rune]string{
	'A': ` (?P<arch>NATIVE|COMPAT32)`, 'a': `(?: (?P<arch>NATIVE|COMPAT32))?`, 'c': `(?: (?P<tls>CLASSIC|NEW))?`,
	'P': ` (?P<path>\S+)`, 'p': `(?: (?P<path>\S+))?`, 'D': ` INHERIT_PATH_DEPTH:(?P<depth>[0-9]{1,3})`,
	'L': ` (?P<target>\S+)`, 'g': `(?: (?P<glvnd>GLVND|NON_GLVND))?`,
}

// forms has the form of what stands between TYPE and MODULE:tag in a line, by the fields of its
// type.
var forms = sync.OnceValue(func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	add := func(r rule) {
		var text strings.Builder
		for _, letter := range r.fields {
			text.WriteString(words[letter])
		}
		all[r.fields] = regexp.MustCompile("^" + text.String() + "$")
	}
	for _, r := range rules {
		if all[r.fields] == nil {
			add(r)
		}
	}
	add(familyRule)
	add(familyLinkRule)
	return all
})

// entry parses one line:
//
//	FILE MODE TYPE [NATIVE|COMPAT32] [CLASSIC|NEW] [PATH|INHERIT_PATH_DEPTH:n] [TARGET]
//	    [GLVND|NON_GLVND] [MODULE:tag]
//
// TYPE alone decides which of the optional words exist.
func (m *Manifest) entry(line int, text string) (e Entry, err error) {
	e.Line = line
	if !printable(text) {
		return e, m.errorf(e, "the line holds unprintable bytes")
	}
	given := strings.Fields(text)
	e.File = given[0]
	if len(given) < 3 {
		return e, m.errorf(e, "the line has %d words where FILE MODE TYPE are the least", len(given))
	}
	e.Type = given[2]
	r, known := lookupRule(e.Type)
	if !known {
		return e, m.errorf(e, "unknown type: %s", m.whyUnknown())
	}
	clean, err := cleanName(e.File)
	if err != nil {
		return e, m.errorf(e, "its name %v", err)
	}
	e.File = clean
	mode, err := strconv.ParseUint(given[1], 8, 12)
	switch e.Mode = fs.FileMode(mode) & fs.ModePerm; {
	case err != nil:
		return e, m.errorf(e, "mode %q is not octal", clip(given[1]))
	case mode > 0o777 && (mode&^0o777 != 0o4000 || e.Type != "NVIDIA_MODPROBE"):
		return e, m.errorf(e, "mode %s: only nvidia-modprobe may have more than permissions, and only set-uid", given[1])
	case mode > 0o777:
		e.Mode |= fs.ModeSetuid
	case e.Link():
		e.Mode = 0
	}
	if last := given[len(given)-1]; strings.HasPrefix(last, "MODULE:") {
		e.Tag = strings.TrimPrefix(last, "MODULE:")
		given = given[:len(given)-1]
	}
	form := forms()[r.fields]
	rest := strings.Join(append([]string{""}, given[3:]...), " ")
	found := form.FindStringSubmatch(rest)
	if found == nil {
		return e, m.errorf(e, "%q is not what follows its type: %s", clip(rest), form)
	}
	values := map[string]string{}
	for i, name := range form.SubexpNames() {
		values[name] = cmp.Or(values[name], found[i])
	}
	e.Arch = values["arch"]
	e.TLS = values["tls"]
	e.GLVND = values["glvnd"]
	e.Path = values["path"]
	e.Target = values["target"]
	e.Depth, _ = strconv.Atoi(values["depth"]) // the form has digits, or nothing
	if e.Depth > maxPathDepth {
		return e, m.errorf(e, "INHERIT_PATH_DEPTH:%d is more than %d", e.Depth, maxPathDepth)
	}
	return e, nil
}

// oldestDriver is the branch that the table of types begins with.
const oldestDriver = 384

// whyUnknown says what a type means that is not in the table: the driver is older than the table,
// or newer.
func (m *Manifest) whyUnknown() string {
	branch, _, _ := strings.Cut(m.Version, ".")
	n, err := strconv.Atoi(branch)
	if err != nil || n >= oldestDriver {
		return "this driver needs a newer version of this program"
	}
	return fmt.Sprintf("driver %s is too old: this program reads drivers from %d on", clip(m.Version), oldestDriver)
}
