package status

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// MaxGitHubJobs is how many jobs a matrix of GitHub may make:
// https://docs.github.com/en/actions/reference/limits. The next plan finds what is left out.
const MaxGitHubJobs = 256

// jobEntry is an entry of a GitHub matrix: texts only, as expressions take them.
type jobEntry struct {
	Tag    string `json:"tag"`
	System string `json:"os"`
	Driver string `json:"driver"`
	Archs  string `json:"archs"` // "amd64 arm64"
	Reason string `json:"reason"`
	Args   string `json:"args"`
}

// WriteGitHub writes the matrix of a GitHub workflow on one line, as GITHUB_OUTPUT takes it: at most
// MaxGitHubJobs tasks.
func WriteGitHub(w io.Writer, tasks []Task) error {
	tasks = tasks[:min(len(tasks), MaxGitHubJobs)]
	entries := []jobEntry{}
	for _, t := range tasks {
		entries = append(entries, jobEntry{t.Tag, t.System, t.Driver, strings.Join(t.Archs, " "), t.Reason, t.Args})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(map[string]any{"include": entries})
}

// WriteGitLab writes a child pipeline. A pipeline must have a job, so there is one that does nothing.
func WriteGitLab(w io.Writer, tasks []Task) error {
	var b strings.Builder
	b.WriteString("# By driver-build plan. The jobs extend .driver-build, which the file that triggers this pipeline defines.\n")
	if len(tasks) == 0 {
		b.WriteString("nothing-to-build:\n  stage: build\n  script:\n    - echo \"every image is up to date\"\n")
	}
	for _, t := range tasks {
		fmt.Fprintf(&b, "%s:\n  extends: .driver-build\n  variables:\n", yamlText(t.Tag))
		for _, v := range []struct{ name, value string }{
			{"DRIVER_BUILD_ARGS", t.Args}, {"DRIVER_BUILD_REASON", t.Reason}, {"DRIVER_BUILD_TAG", t.Tag},
		} {
			// $$ is a $ that GitLab does not take for the beginning of a variable.
			fmt.Fprintf(&b, "    %s: %s\n", v.name, yamlText(strings.ReplaceAll(v.value, "$", "$$")))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// yamlText is a text in double quotes, which mean in YAML what they mean in JSON.
func yamlText(s string) string {
	text, _ := json.Marshal(s) // a string can always be encoded
	return string(text)
}
