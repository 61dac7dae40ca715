package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// byBuilds and byCluster are the first words of the commands that TestBuilds and TestCluster run.
var (
	byBuilds  = []string{"driver-build", "bin/driver-build", "docker", "make", "mkdir"}
	byCluster = []string{"kubectl", "helm"}
)

// triedElsewhere returns the content of elsewhere.yaml: reasons by page and by how a command begins.
func triedElsewhere(t *testing.T) (all map[string]map[string]string) {
	t.Helper()
	text := []byte(testfile.Read(t, "elsewhere.yaml"))
	require.NoError(t, yaml.Load(text, &all, yaml.WithUniqueKeys()))
	return all
}

// isTried says whether one of the reasons is about a command.
func isTried(reasons map[string]string, command string) bool {
	for begin := range reasons {
		if strings.HasPrefix(command, begin) {
			return true
		}
	}
	return false
}

// commands returns the commands of a page that a test runs.
func commands(t *testing.T, name string, programs []string) []Command {
	t.Helper()
	page := Commands(string(require.Value(os.ReadFile(filepath.Join(root, "docs", name+".md")))(t)))
	reasons := triedElsewhere(t)[name]
	return slices.DeleteFunc(page, func(c Command) bool {
		first, _, _ := strings.Cut(c.Text, " ")
		return isTried(reasons, c.Text) || !slices.Contains(programs, first)
	})
}

// TestEveryCommand: a command of a task page is run here, or elsewhere.yaml says where it is tried; and that file
// has no command that the page does not have, and names no test that does not exist.
func TestEveryCommand(t *testing.T) {
	t.Parallel()
	tests, reasons := declaredTests(t), triedElsewhere(t)
	named := regexp.MustCompile(`\bTest[0-9A-Z]\w*`)
	for _, name := range Names {
		all := Commands(string(require.Value(os.ReadFile(filepath.Join(root, "docs", name+".md")))(t)))
		assert.Equalf(t, true, len(all) > 0, "docs/%s.md has commands that are found", name)
		for _, c := range all {
			first, _, _ := strings.Cut(c.Text, " ")
			here := !isTried(reasons[name], c.Text)
			if here && !slices.Contains(slices.Concat(byBuilds, byCluster), first) {
				t.Errorf("docs/%s.md:%d: no test runs %q: add it to elsewhere.yaml, with the test that tries it", name, c.Line, c.Text)
			}
			if reason := unfit(c.Text); here && reason != "" {
				t.Errorf("docs/%s.md:%d: a test must not run %q, because it %s: add it to elsewhere.yaml", name, c.Line, c.Text, reason)
			}
		}
		for text, reason := range reasons[name] {
			if !slices.ContainsFunc(all, func(c Command) bool { return strings.HasPrefix(c.Text, text) }) {
				t.Errorf("elsewhere.yaml has %q, which docs/%s.md does not have", text, name)
			}
			assert.Equalf(t, true, reason != "", "docs/%s.md: %q has a reason", name, text)
			for _, test := range named.FindAllString(reason, -1) {
				assert.Equalf(t, true, tests[test], "docs/%s.md: %q: there is a test %s", name, text, test)
			}
		}
	}
	for name := range reasons {
		assert.Equalf(t, true, slices.Contains(Names, name), "elsewhere.yaml has a page %s that there is", name)
	}
}

var (
	variable = regexp.MustCompile(`\$\{?[A-Za-z_]`)
	inPod    = regexp.MustCompile(`^kubectl .*\b(logs|exec) `)
)

// unfit returns why TestBuilds and TestCluster cannot run a command, or "".
func unfit(command string) string {
	first, _, _ := strings.Cut(command, " ")
	switch {
	case slices.Contains(byBuilds, first) && strings.Contains(command, " /"):
		return "names a path of this machine"
	case variable.MatchString(command):
		return "has a variable that another line of the page sets"
	case inPod.MatchString(command):
		return "needs a kubelet"
	}
	return ""
}

// files returns the project's files with an ending, relative to root, without test data and what was built.
func files(t *testing.T, ending string) (names []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(name, ".") && name != "." && name != ".github" || slices.Contains([]string{"testdata", "bin", "dist"}, d.Name())):
			return fs.SkipDir
		case strings.HasSuffix(name, ending):
			names = append(names, name)
		}
		return nil
	}))
	return names
}

// declaredTests are the names of all tests of the project.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	all := map[string]bool{}
	for _, name := range files(t, "_test.go") {
		for _, m := range function.FindAllStringSubmatch(testfile.Read(t, filepath.Join(root, name)), -1) {
			all[m[1]] = true
		}
	}
	return all
}

func TestCommands(t *testing.T) {
	t.Parallel()
	got := Commands("# A\n\nUse `helm upgrade` and `kubectl get pods -n \\|x`.\n\n    make a\n    output of it\n\n    helm b \\\n      --c   # a comment\n" +
		"1. Text\n   more\n\n       $ make c\n   `mokutil --import x`\n\nText:\n      no code in a list\n\n```sh\ncurl x | sh\n```\n")
	assert.Same(t, []Command{{3, "kubectl get pods -n |x"}, {5, "make a"}, {8, "helm b --c"}, {13, "make c"}, {14, "mokutil --import x"}, {20, "curl x | sh"}}, got)
	assert.Equal(t, "a: 1\nb: {c: d}\n", File("x\n\n    a: 1\n    b: {c: d}\n\n    e\n", "a: 1"))
	assert.Equal(t, "", File("x\n", "a: 1"))
}
