package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

const checkLong = `Ask, for each pair of the matrix, whether it could be built now: whether the base is to be had, the driver's archive is there
with the size that the matrix has, the package repositories have compiler and headers for the current kernel, and what was locked is
still there; and whether the registry has the image. Nothing is downloaded but bases and indexes. Exit code 3 when a pair is broken;
an image that is missing or out of date breaks nothing. Without --os and --driver the whole matrix is meant.`

// verdict is the answer to one question about a pair.
type verdict struct {
	State  string `json:"state"` // one of those below
	Detail string `json:"detail,omitempty"`
}

const (
	stateOK      = "ok"
	stateFailed  = "failed"
	stateUnknown = "unknown" // could not be found out, or means nothing
	stateNone    = "none"    // there is nothing to ask
)

// checkRow is one pair.
type checkRow struct {
	System   string   `json:"os"`
	Driver   string   `json:"driver"`
	Arch     string   `json:"arch"`
	Tag      string   `json:"tag"`
	Excluded string   `json:"excluded,omitempty"` // the rule that says why it cannot be built; nothing else was asked then
	Base     *verdict `json:"base,omitempty"`
	Archive  *verdict `json:"archive,omitempty"`
	Headers  *verdict `json:"headers,omitempty"` // and compiler, for the kernel in Kernel
	Kernel   string   `json:"kernel,omitempty"`  // the newest that the driver compiles on
	Kernels  int      `json:"kernels"`           // how many are offered that it compiles on
	Lock     *verdict `json:"lock,omitempty"`    // whether what was locked is still there
	Image    *stateOf `json:"image,omitempty"`
	Broken   bool     `json:"broken"`
}

// checking is one call of the command.
type checking struct {
	app     *app
	options buildOptions // selection, repository, mirror, lock and entrypoint only
	format  string
	plan    recipe.Options
	lock    *lockFile
}

func newCheckCmd(a *app) *cobra.Command {
	c := &checking{app: a}
	o := &c.options
	cmd := &cobra.Command{
		Use: "check", Short: "Check that the pairs of the matrix can be built", Long: checkLong, Args: noArgs,
		Example: "  driver-build check --repository registry.example.com/gpu/driver\n  driver-build check --os debian12 -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.do(cmd.Context()) },
	}
	f := cmd.Flags()
	o.selection.flags(f)
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH to look for images in (default: the matrix's)")
	f.StringVar(&o.mirror, "mirror", "", "package mirror instead of the addresses in the base's configuration: URL or PREFIX=URL")
	f.StringVar(&o.entrypoint, "entrypoint", "", "driver-entrypoint of the images (default: the one beside this program)")
	f.StringVarP(&c.format, "format", "o", "table", "table or json")
	lockFlag(f, &o.lock)
	return cmd
}

func (c *checking) do(ctx context.Context) error {
	o := &c.options
	if c.format != "table" && c.format != "json" {
		return usageError{fmt.Errorf("-o %q is not known: use table or json", c.format)}
	}
	m, err := o.selection.load()
	if err != nil {
		return err
	}
	if o.repository == "" {
		o.repository = m.Defaults.Repository
	}
	cells, err := o.selection.cells(m, true)
	if err != nil {
		return err
	}
	o.selection.all = true
	targets, err := m.Select(matrix.Selection{
		Systems: o.selection.systems, Drivers: o.selection.drivers, Archs: o.selection.archs, All: true, Flavours: o.selection.flavour,
		AllowIncompatible: o.selection.incompatible,
	})
	if err != nil {
		return usageError{err}
	}
	if c.lock, err = openLock(o, targets...); err != nil {
		return err
	}
	c.plan = recipe.Options{Mirror: o.mirror}
	if c.plan.Profile, err = recipe.ParseProfile(m.Defaults.Profile); err != nil {
		return usageError{err}
	}
	rows := make([]checkRow, len(cells))
	for i, l := range cells {
		rows[i] = checkRow{System: l.System, Driver: l.Driver, Arch: l.Arch, Tag: l.Tag, Excluded: l.Excluded}
	}
	if err := c.app.with(ctx, m.Defaults.Mirrors, o.entrypoint, func(ctx context.Context, s *session) error {
		return c.run(ctx, s, rows, targets)
	}); err != nil {
		return err
	}
	if err := c.print(rows); err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(rows, func(r checkRow) bool { return !r.Broken })); n > 0 {
		return fmt.Errorf("%d of %d pairs cannot be built: %w", n, len(targets), errSomeFailed)
	}
	return nil
}

// run looks at all pairs, several at a time.
func (c *checking) run(ctx context.Context, s *session, rows []checkRow, targets []matrix.Target) error {
	q, err := newInquiry(c, s)
	if err != nil {
		return err
	}
	var eg errgroup.Group
	eg.SetLimit(max(1, c.app.jobs))
	for i := range rows {
		at := slices.IndexFunc(targets, func(t matrix.Target) bool {
			return t.System.ID == rows[i].System && t.Driver.Version == rows[i].Driver && t.Arch == rows[i].Arch
		})
		if rows[i].Excluded != "" || at < 0 {
			continue
		}
		eg.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			q.look(ctx, &rows[i], targets[at])
			return context.Cause(ctx)
		})
	}
	return eg.Wait()
}

func (c *checking) print(rows []checkRow) error {
	if c.format == "json" {
		if rows == nil {
			rows = []checkRow{}
		}
		return c.app.printJSON(rows)
	}
	w := tabwriter.NewWriter(c.app.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "OS\tDRIVER\tARCH\tBASE\tARCHIVE\tHEADERS\tLOCK\tIMAGE\tNOTE")
	for _, r := range rows {
		if r.Excluded != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t-\t-\t-\t-\t-\texcluded: %s\n", r.System, r.Driver, r.Arch, r.Excluded)
			continue
		}
		image := "-"
		if r.Image != nil {
			image = string(r.Image.State)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.System, r.Driver, r.Arch, r.Base.text(), r.Archive.text(), r.Headers.text(), r.Lock.text(), image, r.note())
	}
	return w.Flush()
}

func (v *verdict) text() string {
	switch {
	case v == nil || v.State == stateNone:
		return "-"
	case v.State == stateFailed:
		return "FAILED"
	}
	return v.State
}

// note is what people need to know beside the states.
func (r checkRow) note() string {
	var notes []string
	for _, v := range []*verdict{r.Base, r.Archive, r.Headers, r.Lock} {
		if v != nil && v.State != stateOK && v.Detail != "" && !slices.Contains(notes, v.Detail) {
			notes = append(notes, v.Detail)
		}
	}
	if r.Headers != nil && r.Headers.State == stateOK {
		notes = append(notes, r.Headers.Detail)
	}
	if r.Image != nil && r.Image.State != imageMissing && r.Image.Why != "" {
		notes = append(notes, "image: "+r.Image.Why)
	}
	return strings.Join(notes, "; ")
}
