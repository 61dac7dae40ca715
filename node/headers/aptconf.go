package headers

import (
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	maxConf      = 1 << 20 // bytes of one configuration file
	maxConfFiles = 500     // in one folder
	maxDepth     = 32      // of nested braces
	maxValues    = 4096    // kept
)

// conf holds the settings of apt.conf(5) about downloads by their full name in lower case:
// "acquire::http::proxy". Lists are not kept, since no download setting that matters here is a list.
type conf map[string]string

// is says whether a setting has this truth value; it is false for a setting that does not exist.
func (c conf) is(name string, value bool) bool {
	switch strings.ToLower(c[name]) {
	case "yes", "true", "1", "on", "with", "enable":
		return value
	case "no", "false", "0", "off", "without", "disable":
		return !value
	}
	return false
}

// readConf reads etc/apt/apt.conf.d and then etc/apt/apt.conf, like apt: the later value counts. For a file
// that is not valid it logs a warning and keeps the settings before the mistake: most settings in these files
// have nothing to do with downloads and must not prevent the download of headers.
func readConf(root fs.FS, log *slog.Logger) conf {
	c := conf{}
	for _, name := range confFiles(root, "etc/apt/apt.conf.d", "etc/apt/apt.conf", true) {
		text, err := bounded.FSFile(root, name, maxConf)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = c.parse(string(text))
		}
		if err != nil {
			log.Warn("the rest of the file is not used", "path", name, "error", err)
		}
	}
	return c
}

// confFiles lists the files of a configuration folder in the order of their names, and then the main file.
// Like apt it accepts names that end in .conf, and names without an extension if bare is set.
func confFiles(root fs.FS, dir, main string, bare bool) []string {
	var names []string
	list, _ := fs.ReadDir(root, dir) // the folder is optional, so an error counts as an empty folder
	for _, e := range list[:min(len(list), maxConfFiles)] {
		ext := path.Ext(e.Name())
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (ext == ".conf" || ext == "" && bare) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return append(names, main)
}

// parse parses the format of apt.conf(5): statements of a name and a value that end in a semicolon, scopes in
// braces, comments of C, C++ and shell, and the directive #clear. It refuses #include, which no configuration
// that is mounted into a container needs.
func (c conf) parse(text string) error {
	l := lexer{text: text, line: 1}
	var scopes, words []string
	for {
		tok, kind, err := l.next()
		switch {
		case err != nil:
			return err
		case kind == tokenEnd && (len(words) > 0 || len(scopes) > 0):
			return l.fail("it ends in the middle of a statement")
		case kind == tokenEnd:
			return nil
		case kind == tokenWord:
			if words = append(words, tok); len(words) > 16 {
				return l.fail("a statement has more than 16 words: is a semicolon missing?")
			}
		case kind == tokenOpen:
			if len(words) == 0 || len(scopes) == maxDepth {
				return l.fail("a brace without a name, or more than 32 of them")
			}
			scopes, words = append(scopes, words[0]), nil
		case kind == tokenClose:
			if len(scopes) == 0 || len(words) > 0 {
				return l.fail("a closing brace where none is expected")
			}
			scopes = scopes[:len(scopes)-1]
		case kind == tokenStop:
			if err := c.set(scopes, words); err != nil {
				return l.fail(err.Error())
			}
			words = nil
		}
	}
}

// set keeps the value of one statement if that is about downloads.
func (c conf) set(scopes, words []string) error {
	if len(words) == 0 || len(scopes) > 0 && len(words) == 1 { // empty, or an item of a list
		return nil
	}
	if strings.EqualFold(words[0], "#include") {
		return errors.New("#include is not supported here")
	}
	if strings.EqualFold(words[0], "#clear") {
		for _, name := range words[1:] {
			c.clear(strings.ToLower(strings.Join(append(slices.Clone(scopes), name), "::")))
		}
		return nil
	}
	name := strings.ToLower(strings.Join(append(slices.Clone(scopes), words[0]), "::"))
	if !strings.HasPrefix(name, "acquire::") || strings.HasSuffix(name, "::") || len(name) > 1024 {
		return nil
	}
	if len(c) >= maxValues {
		return errors.New("too many settings")
	}
	c[name] = strings.Join(words[1:], " ")
	return nil
}

func (c conf) clear(name string) {
	for k := range c {
		if k == name || strings.HasPrefix(k, strings.TrimSuffix(name, "::")+"::") {
			delete(c, k)
		}
	}
}
