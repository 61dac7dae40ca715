package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/releases"
)

// Task is one build that is due: a tag, for one or several architectures.
type Task struct {
	Tag        string          `json:"tag"`
	System     string          `json:"os"`
	Driver     string          `json:"driver"`
	Archs      []string        `json:"archs"`
	Kernels    []string        `json:"kernels,omitempty"` // that modules are compiled for
	Reason     string          `json:"reason"`
	Advisories []releases.Note `json:"advisories,omitempty"` // what is known of the driver
	// of driver-build, separated by single spaces; nothing in it needs quotes
	Args string `json:"args"`
}

// Builds are the builds of a request that are due.
type Builds struct {
	Tasks []Task // in the order of the matrix
	// tags that are left out because their base or packages are out of reach, by the cause
	Left    map[string][]string
	Checked int // how many tags there are
}

// Due lists the builds of images that the registry does not have, or that are out of date. An image
// that cannot be planned is listed too, so that its build says why. A registry that does not answer
// is an error: everything would be built again. Images whose base or packages are out of reach are
// left out, because a build could not work either; it is an error if nothing else is to be built.
func Due(ctx context.Context, builder *images.Builder, q Query) (due Builds, err error) {
	err = checkArguments(q.Arguments)
	if err != nil {
		return due, err
	}
	due = Builds{Tasks: []Task{}, Left: map[string][]string{}}
	drafts, failed := builder.AllDrafts(ctx, q.Request)
	var first error // of those that are left out
	for tag, err := range failed.Each {
		if !outOfReach(err) {
			return due, failed.Err(0)
		}
		first = cmp.Or(first, err)
		due.leaveOut(tag, err)
	}
	groups := images.ByTag(drafts, func(d *images.Draft) string { return d.Recipe.Tag })
	due.Checked += len(groups)
	s := &survey{query: q, builder: builder}
	found := make([]reasons, len(groups))
	errs := images.Parallel(ctx, builder.Jobs, len(groups), func(i int) (err error) {
		found[i], err = s.reasons(ctx, groups[i])
		return err
	})
	err = images.JoinErrors(errs, func(i int) string { return groups[i][0].Recipe.Tag })
	if err != nil {
		return due, err
	}
	for i, group := range groups {
		switch {
		case found[i].outage != nil:
			first = cmp.Or(first, found[i].outage)
			due.leaveOut(group[0].Recipe.Tag, found[i].outage)
		case found[i].text != "":
			task, err := NewTask(taskOf(group, found[i].text), q.Arguments)
			if err != nil {
				return due, err
			}
			due.Tasks = append(due.Tasks, task)
		}
	}
	if first != nil && len(due.Tasks) == 0 {
		return due, fmt.Errorf("nothing else is to be built: %w", first)
	}
	return due, nil
}

// leaveOut leaves a tag out.
func (b *Builds) leaveOut(tag string, err error) {
	why := images.CauseOf(err, tag)
	b.Left[why] = append(b.Left[why], tag)
}

// outOfReach says whether an error may pass: what does not exist will not exist later either.
func outOfReach(err error) bool {
	return errors.Is(err, fetch.ErrUnreachable) && !errors.Is(err, fs.ErrNotExist)
}

// Lacking asks the registry which architectures of the tag of each task it lacks, and nothing else:
// whether an image is up to date is what [Due] finds out. The answers are in the order of the tasks
// and never nil. A registry that does not answer is an error.
func Lacking(
	ctx context.Context,
	builder *images.Builder,
	repository string,
	tasks []Task,
) ([][]string, error) {
	s := &survey{query: Query{Repository: repository}, builder: builder}
	lacking := make([][]string, len(tasks))
	errs := images.Parallel(ctx, builder.Jobs, len(tasks), func(i int) error {
		lacking[i] = []string{}
		for _, arch := range tasks[i].Archs {
			st := s.state(ctx, tasks[i].Tag, arch, nil)
			switch st.State {
			case Unknown:
				return st.Err
			case Missing:
				lacking[i] = append(lacking[i], arch)
			}
		}
		return nil
	})
	return lacking, images.JoinErrors(errs, func(i int) string { return tasks[i].Tag })
}

// reasons are those to build what belongs to a tag.
type reasons struct {
	text   string // "" when it is up to date
	outage error  // why that is not known
}

// reasons compares the images of a tag with the registry's.
func (s *survey) reasons(ctx context.Context, group []*images.Draft) (found reasons, err error) {
	var all, named []string // named have the architecture
	for _, d := range group {
		st, planErr := s.compare(ctx, d)
		why := st.Why
		switch {
		case ctx.Err() != nil:
			return found, context.Cause(ctx)
		case planErr != nil && outOfReach(planErr):
			found.outage = planErr
			continue
		case st.State == Unknown:
			return found, st.Err
		case planErr != nil:
			why = "cannot be planned: " + oneLine(planErr.Error())
		case st.State == Current:
			continue
		case st.State != Missing:
			why = string(st.State) + ": " + st.Why
		}
		all = append(all, why)
		named = append(named, d.Recipe.Arch+": "+why)
	}
	found.text = strings.Join(named, "; ")
	if len(all) == len(group) && len(slices.Compact(all)) == 1 { // true of all architectures
		found.text = all[0]
	}
	return found, nil
}

// taskOf is the build of the images of a tag.
func taskOf(group []*images.Draft, reason string) Task {
	r := group[0].Recipe
	t := Task{
		Tag:     r.Tag,
		System:  r.System,
		Driver:  r.Driver,
		Kernels: r.Releases(),
		Reason:  reason,
	}
	for _, d := range group {
		t.Archs = append(t.Archs, d.Recipe.Arch)
	}
	return t
}

// NewTask completes a task with the arguments of its build: those that choose the images, and flags
// that every build of the call has. It is an error if one of them cannot be an argument in a
// pipeline.
func NewTask(t Task, arguments []string) (Task, error) {
	words := []string{"--os", t.System, "--driver", t.Driver}
	for _, arch := range t.Archs {
		words = append(words, "--arch", arch)
	}
	for _, k := range t.Kernels { // by name, so that the job builds what was planned
		words = append(words, "--kernel", k)
	}
	words = append(words, arguments...)
	t.Args = strings.Join(words, " ")
	return t, checkArguments(words)
}

// checkArguments refuses words that the job of a pipeline cannot pass on: it separates them by
// single spaces, and a shell takes them as they are.
func checkArguments(words []string) error {
	for _, w := range words {
		if strings.ContainsAny(w, " \t\n*?['\"\\") {
			return failure.Errorf(
				failure.Usage,
				"%q cannot be an argument in a pipeline: use a name without spaces, quotes and "+
					"wildcards",
				w,
			)
		}
	}
	return nil
}

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

// WriteGitHub writes the matrix of a GitHub workflow on one line, as GITHUB_OUTPUT takes it: at
// most MaxGitHubJobs tasks.
func WriteGitHub(w io.Writer, tasks []Task) error {
	tasks = tasks[:min(len(tasks), MaxGitHubJobs)]
	entries := []jobEntry{}
	for _, t := range tasks {
		entries = append(
			entries,
			jobEntry{t.Tag, t.System, t.Driver, strings.Join(t.Archs, " "), t.Reason, t.Args},
		)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(map[string]any{"include": entries})
}

// WriteGitLab writes a child pipeline. A pipeline must have a job, so there is one that does
// nothing.
func WriteGitLab(w io.Writer, tasks []Task) error {
	var b strings.Builder
	b.WriteString(
		"# By driver-build plan. The jobs extend .driver-build, which the file that triggers this pipeline defines.\n",
	)
	if len(tasks) == 0 {
		b.WriteString(
			"nothing-to-build:\n  stage: build\n  script:\n    - echo \"every image is up to date\"\n",
		)
	}
	for _, t := range tasks {
		fmt.Fprintf(&b, "%s:\n  extends: .driver-build\n  variables:\n", yamlText(t.Tag))
		for _, v := range []struct{ name, value string }{
			{"DRIVER_BUILD_ARGS", t.Args},
			{"DRIVER_BUILD_REASON", t.Reason},
			{"DRIVER_BUILD_TAG", t.Tag},
		} {
			// $$ is a $ that GitLab does not take for the beginning of a variable.
			fmt.Fprintf(
				&b,
				"    %s: %s\n",
				v.name,
				yamlText(strings.ReplaceAll(v.value, "$", "$$")),
			)
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
