package kmod

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Options are the parameters in a machine's files: module (with _) to "name=value". Each name
// occurs once, in the order in which the last values were given. Values have no quotes around them.
type Options map[string][]string

// For returns the parameters of a module, named with - or _.
func (o Options) For(module string) []string { return slices.Clone(o[ModuleName(module)]) }

// Text returns the parameters as a file of modprobe.d(5).
func (o Options) Text() (string, error) {
	var b strings.Builder
	for _, module := range slices.Sorted(maps.Keys(o)) {
		text, err := joinParams(o[module])
		if err != nil {
			return "", fmt.Errorf("parameters of %s: %w", module, err)
		}
		if text != "" {
			fmt.Fprintf(&b, "options %s %s\n", module, text)
		}
	}
	return b.String(), nil
}

const (
	maxConfig      = 1 << 20 // bytes of a configuration file
	maxConfigFiles = 1 << 10 // in one folder
)

// ReadOptions reads the parameters of NVIDIA's modules. First come the "options MODULE name=value
// ..." lines of modprobe's folders: files *.conf in the order of their names; of two files with one
// name, the one in the earlier folder counts; lines other than options are ignored. Then comes
// <driversDir>/<module>.conf as NVIDIA's images read it: "name=value" separated by blanks or line
// ends. Later values win. Lines that begin with # are comments. A folder that does not exist counts
// as empty. An error names file and line; parameters of other modules never cause an error.
func ReadOptions(modprobeDirs []string, driversDir string) (Options, error) {
	o := Options{}
	files, err := configFiles(modprobeDirs)
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		if err := o.file(path, ""); err != nil {
			return nil, err
		}
	}
	if driversDir == "" {
		return o, nil
	}
	files, err = configFiles([]string{driversDir})
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		module := ModuleName(strings.TrimSuffix(filepath.Base(path), ".conf"))
		// gridd.conf and others are not about modules
		if !isNVIDIAModule(module) || validName(module) != nil {
			continue
		}
		if err := o.file(path, module); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// isNVIDIAModule reports whether a module gets parameters: only NVIDIA's modules do.
func isNVIDIAModule(module string) bool {
	return strings.HasPrefix(module, "nvidia") || module == "gdrdrv"
}

// configFiles returns *.conf of several folders in the order of their names. An earlier folder
// hides names of later ones.
func configFiles(dirs []string) ([]string, error) {
	byName := map[string]string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the module options in %s: %w", dir, err)
		}
		if len(entries) > maxConfigFiles {
			return nil, fmt.Errorf(
				"read the module options in %s: it has %d entries, more than %d",
				dir,
				len(entries),
				maxConfigFiles,
			)
		}
		for _, e := range entries {
			if _, hidden := byName[e.Name()]; !hidden && strings.HasSuffix(e.Name(), ".conf") {
				byName[e.Name()] = filepath.Join(dir, e.Name())
			}
		}
	}
	var files []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		files = append(files, byName[name])
	}
	return files, nil
}

// file reads a file with the parameters of a module; "": a file of modprobe.d, of which only
// options of NVIDIA's modules count.
func (o Options) file(path, module string) error {
	text, err := readConfig(path)
	if isNotExist(err) { // removed meanwhile, or a link to nothing
		return nil
	}
	if err != nil {
		return fmt.Errorf(
			"read the module options in %s: %w; correct or remove the file",
			path,
			err,
		)
	}
	for _, line := range lines(text) {
		of := module
		rest := line.text
		if module == "" {
			m := optionsLine().FindStringSubmatch(rest)
			if m == nil || !isNVIDIAModule(m[1]) || validName(m[1]) != nil {
				continue
			}
			of = ModuleName(m[1])
			rest = m[2]
		}
		if err := o.add(of, rest); err != nil {
			return fmt.Errorf("%s:%d: %w; correct the file", path, line.number, err)
		}
	}
	return nil
}

// optionsLine matches the lines that count: "options MODULE name=value ...".
var optionsLine = lazyregexp.New(`^[ \t]*options[ \t]+([^ \t]+)(.*)$`)

// readConfig reads a small file. /dev/null is an empty one: a link to it hides the file of that
// name in a later folder.
func readConfig(path string) (string, error) {
	text, err := bounded.Text(path, maxConfig)
	target, _ := filepath.EvalSymlinks(path) //nolint:errcheck // then it is not this one
	if target == os.DevNull {
		return "", nil
	}
	return text, err
}

type configLine struct {
	number int // of its first line, from 1
	text   string
}

// lines splits a file into lines, without comments and empty lines. A \ at the end of a line
// continues it.
func lines(text string) []configLine {
	var all []configLine
	open := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		part, more := strings.CutSuffix(line, `\`)
		if open {
			all[len(all)-1].text += part
		} else {
			all = append(all, configLine{number: i + 1, text: part})
		}
		open = more
	}
	return slices.DeleteFunc(all, func(l configLine) bool {
		trimmed := strings.TrimSpace(l.text)
		return trimmed == "" || trimmed[0] == '#'
	})
}

// add appends the parameters of a line and drops earlier values of the same names: modules take the
// last value, and a repeated name would be hard to compare with live values.
func (o Options) add(module, text string) error {
	params, err := splitParams(text)
	if err != nil {
		return fmt.Errorf("parameters of %s: %w", module, err)
	}
	for _, p := range params {
		o[module] = append(
			slices.DeleteFunc(
				o[module],
				func(old string) bool { return paramOf(old) == paramOf(p) },
			),
			p,
		)
	}
	return nil
}

// paramOf is the name of "name=value", as the kernel compares it.
func paramOf(p string) string {
	name, _, _ := strings.Cut(p, "=")
	return ModuleName(name)
}

// Default gives a module parameters whose names nothing has given it yet. They come before the
// others.
func (o Options) Default(module string, params ...string) {
	module = ModuleName(module)
	added := slices.DeleteFunc(slices.Clone(params), func(p string) bool {
		return slices.ContainsFunc(
			o[module],
			func(have string) bool { return paramOf(have) == paramOf(p) },
		)
	})
	if len(added) > 0 {
		o[module] = append(added, o[module]...)
	}
}
