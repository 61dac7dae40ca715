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
	"github.com/driver-container/driver-container/images/batch"
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

// Builds are the builds of a batch that are due.
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
// groups are those of [batch.Batch.Groups], nil where [batch.Batch.NeedsIndex] is true.
func Due(
	ctx context.Context,
	b *batch.Batch,
	builder *images.Builder,
	groups []batch.Group,
) (due Builds, err error) {
	if _, err := pipelineArguments(b); err != nil {
		return due, err
	}
	s, err := newSurvey(b, builder)
	if err != nil {
		return due, err
	}
	if b.NeedsIndex() {
		groups, err = b.Groups(b.Offered(ctx, s.plans))
		if err != nil {
			return due, err
		}
	}
	reasons := make([]string, len(groups))
	outage := make([]error, len(groups))
	if err := batch.EachError(ctx, builder.Jobs, len(groups), func(i int) string { return groups[i].Tag }, func(i int) (err error) {
		reasons[i], outage[i], err = s.reasons(ctx, groups[i])
		return err
	}); err != nil {
		return due, err
	}
	due = Builds{Tasks: []Task{}, Left: map[string][]string{}, Checked: len(groups)}
	var first error
	for i, g := range groups {
		switch {
		case outage[i] != nil:
			why := batch.CauseOf(outage[i], g.Tag)
			due.Left[why], first = append(due.Left[why], g.Tag), cmp.Or(first, outage[i])
		case reasons[i] != "":
			t, err := NewTask(b, g, reasons[i])
			if err != nil {
				return due, err
			}
			due.Tasks = append(due.Tasks, t)
		}
	}
	if first != nil && len(due.Tasks) == 0 {
		return due, fmt.Errorf("nothing else is to be built: %w", first)
	}
	return due, nil
}

// Lacking asks the registry which architectures of each tag it lacks, and nothing else: whether an
// image is up to date is what [Due] finds out. The answers are in the order of the groups and never
// nil. A registry that does not answer is an error.
func Lacking(
	ctx context.Context,
	builder *images.Builder,
	repository string,
	groups []batch.Group,
) ([][]string, error) {
	s, err := newSurvey(&batch.Batch{Repository: repository}, builder)
	if err != nil {
		return nil, err
	}
	lacking := make([][]string, len(groups))
	return lacking, batch.EachError(
		ctx,
		builder.Jobs,
		len(groups),
		func(i int) string { return groups[i].Tag },
		func(i int) error {
			lacking[i] = []string{}
			for _, im := range groups[i].Images {
				switch st := s.state(ctx, groups[i].Tag, im.Target.Arch, nil); st.State {
				case Unknown:
					return st.Err
				case Missing:
					lacking[i] = append(lacking[i], im.Target.Arch)
				}
			}
			return nil
		},
	)
}

// reasons to build what belongs to a tag; "" when it is up to date. outage is why that is not
// known.
func (s *survey) reasons(ctx context.Context, g batch.Group) (reasons string, outage, err error) {
	var all, named []string // named have the architecture
	for _, im := range g.Images {
		st, planErr := s.compare(ctx, g.Tag, im)
		why := st.Why
		switch {
		case ctx.Err() != nil:
			return "", nil, context.Cause(ctx)
		case errors.Is(planErr, fetch.ErrUnreachable) && !errors.Is(planErr, fs.ErrNotExist): // what does not exist will not exist later either
			outage = planErr
			continue
		case st.State == Unknown:
			return "", nil, st.Err
		case planErr != nil:
			why = "cannot be planned: " + oneLine(planErr.Error())
		case st.State == Current:
			continue
		case st.State != Missing:
			why = string(st.State) + ": " + st.Why
		}
		all = append(all, why)
		named = append(named, im.Target.Arch+": "+why)
	}
	if len(all) == len(g.Images) && len(slices.Compact(all)) == 1 { // true of all architectures
		return all[0], outage, nil
	}
	return strings.Join(named, "; "), outage, nil
}

// NewTask returns the build of a tag with the flags of the batch. It is an error if one of them
// cannot be an argument in a pipeline.
func NewTask(b *batch.Batch, g batch.Group, reason string) (Task, error) {
	first := g.Images[0]
	t := Task{
		Tag:     g.Tag,
		System:  first.Target.System.ID,
		Driver:  first.Target.Driver.Version,
		Kernels: first.Plan.Kernels,
		Reason:  reason,
	}
	words := []string{"--os", t.System, "--driver", t.Driver}
	for _, im := range g.Images {
		t.Archs = append(t.Archs, im.Target.Arch)
		words = append(words, "--arch", im.Target.Arch)
	}
	for _, k := range t.Kernels { // by name, so that the job builds what was planned
		words = append(words, "--kernel", k)
	}
	given, err := pipelineArguments(b)
	if err != nil {
		return t, err
	}
	t.Args = strings.Join(append(words, given...), " ")
	return t, nil
}

// pipelineArguments gives the flags of this call that the job of a pipeline repeats. A job
// separates them by single spaces, and a shell takes them as they are.
func pipelineArguments(b *batch.Batch) ([]string, error) {
	words := b.Arguments(
		"--one-image",
		"--with-toolchain",
		"--no-toolchain",
		"--with-sources",
		"--kmm",
		"--allow-incompatible",
		"--allow-missing-programs",
		"--insecure-registry",
		"--no-fabric",
		"--no-patches",
		"--companions",
		"--modules",
		"--flavour",
		"--profile",
		"--base",
		"--kernel-from",
	)
	for _, w := range b.Arguments("--mirror") {
		words = append(words, strings.ReplaceAll(w, " ", ","))
	}
	words = append(
		words,
		b.Arguments("--matrix", "--lock", "--repository", "--ca", "--registry-mirror")...)
	for _, w := range words {
		if strings.ContainsAny(w, " \t\n*?['\"\\") {
			return nil, failure.Errorf(
				failure.Usage,
				"%q cannot be an argument in a pipeline: use a name without spaces, quotes and wildcards",
				w,
			)
		}
	}
	return words, nil
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
