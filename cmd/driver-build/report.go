package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/page"
	"github.com/driver-container/driver-container/images/recipe"
)

const reportLong = `Write a page that shows the matrix: systems by drivers, which images the registry has and which it lacks, their tags, digests and
sizes, the kernels of each, and why a pair cannot be built. The page is one file that needs no network and no script; it can be put
on any web server, mailed, printed.

Whether an image is out of date is said when there is a lock, or with --compare, which asks the package repositories as plan does.
Without --os and --driver the whole matrix is meant. SOURCE_DATE_EPOCH sets the time on the page.`

// reporting is one call of the command.
type reporting struct {
	app            *app
	options        buildOptions // selection, repository, profile, mirror, lock and entrypoint only
	file, releases string
	title          string
	compare        bool

	matrix  *matrix.Matrix
	at      time.Time
	plan    recipe.Options
	lock    *lockFile
	targets map[[3]string]matrix.Target // by system, driver and architecture
	page    page.Report
	notes   []string // for stderr and the page
}

func newReportCmd(a *app) *cobra.Command {
	r := &reporting{app: a}
	o := &r.options
	cmd := &cobra.Command{
		Use: "report --html FILE", Short: "Write a page that shows what is built of the matrix", Long: reportLong, Args: noArgs,
		Example: "  driver-build report --html index.html --repository registry.example.com/gpu/driver\n  driver-build report --html - --os debian12 > debian12.html",
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.do(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&r.file, "html", "", "FILE to write, - for stdout")
	o.selection.flags(f)
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH to look for images in (default: the matrix's; without any no registry is asked)")
	f.BoolVar(&r.compare, "compare", false, "plan every image, to tell which are out of date")
	f.StringVar(&o.mirror, "mirror", "", "package mirror instead of the addresses in the base's configuration: URL or PREFIX=URL")
	f.StringVar(&o.profile, "profile", "", "full or compute (default: the matrix's)")
	f.StringVar(&o.entrypoint, "entrypoint", "", "driver-entrypoint of the images (default: the one beside this program)")
	f.StringVar(&r.releases, "releases", "", releasesHelp)
	f.StringVar(&r.title, "title", "", "heading of the page (default NVIDIA driver images)")
	lockFlag(f, &o.lock)
	o.compression = string(recipe.Gzip)
	return cmd
}

func (r *reporting) do(ctx context.Context) error {
	if r.file == "" {
		return usageError{errors.New("give --html FILE, or --html - for stdout")}
	}
	if r.file != "-" {
		if err := folderOf("--html", r.file); err != nil {
			return err
		}
	}
	cells, err := r.prepare()
	if err != nil {
		return err
	}
	if err := r.app.with(ctx, r.matrix.Defaults.Mirrors, r.options.entrypoint, func(ctx context.Context, s *session) error {
		known, err := r.app.knownDrivers(ctx, s, r.releases)
		if err != nil {
			return err
		}
		r.notes = append(r.notes, known.notes...)
		r.describe(known, cells)
		return r.ask(ctx, s, cells)
	}); err != nil {
		return err
	}
	for _, n := range r.notes {
		fmt.Fprintln(r.app.stderr, "note: "+n)
	}
	r.page.Notes = r.notes
	var b bytes.Buffer
	if err := page.Write(&b, r.page); err != nil {
		return err
	}
	if r.file == "-" {
		_, err := r.app.stdout.Write(b.Bytes())
		return err
	}
	if err := replaceFile(r.file, b.Bytes(), 0o644, nil); err != nil {
		return fmt.Errorf("write %s: %w", r.file, err)
	}
	return nil
}

// prepare reads the matrix and the lock and chooses the cells.
func (r *reporting) prepare() (cells []cell, err error) {
	o := &r.options
	if r.matrix, err = o.selection.load(); err != nil {
		return nil, err
	}
	if o.repository == "" {
		o.repository = r.matrix.Defaults.Repository
	}
	if o.profile == "" {
		o.profile = r.matrix.Defaults.Profile
	}
	if r.at, err = r.app.now(); err != nil {
		return nil, err
	}
	if r.plan, err = o.planOptions(r.app.getenv("SOURCE_DATE_EPOCH")); err != nil {
		return nil, usageError{err}
	}
	if cells, err = o.selection.cells(r.matrix, true); err != nil {
		return nil, err
	}
	o.selection.all = true
	targets, err := o.selection.targets(r.matrix)
	if err != nil {
		return nil, err
	}
	if r.lock, err = openLock(o, targets...); err != nil {
		return nil, err
	}
	r.targets = map[[3]string]matrix.Target{}
	for _, t := range targets {
		r.targets[[3]string{t.System.ID, t.Driver.Version, t.Arch}] = t
	}
	if r.app.offline && o.repository != "" {
		o.repository = ""
		r.notes = append(r.notes, "the registry was not asked (--offline)")
	}
	return cells, nil
}

// describe fills in what the matrix and the table of drivers say: rows, columns and headings. The newest driver comes first.
func (r *reporting) describe(known knownDrivers, cells []cell) {
	o := &r.options
	r.page = page.Report{
		Title: r.title, Generated: r.at, Tool: "driver-build " + buildInfo().Version, Repository: o.repository, Matrix: "matrix.yaml",
	}
	if o.selection.matrixFile != "" {
		r.page.Matrix = filepath.Base(o.selection.matrixFile)
	}
	for _, s := range r.matrix.Systems {
		if slices.ContainsFunc(cells, func(c cell) bool { return c.System == s.ID }) {
			r.page.Systems = append(r.page.Systems, page.System{ID: s.ID, Base: s.Base, Archs: s.Archs, Kernels: s.Kernels})
		}
	}
	for _, d := range slices.Backward(r.matrix.Drivers) {
		if !slices.ContainsFunc(cells, func(c cell) bool { return c.Driver == d.Version }) {
			continue
		}
		column := page.Driver{
			Version: d.Version, Branch: d.Branch, Flavours: d.Flavours, Min: d.Kernel.Min, Max: d.Kernel.Max, Reason: d.Kernel.Reason,
		}
		if b, ok := known.Branch(d.Branch); ok {
			row := newBranchRow(b, r.matrix, r.at)
			column.Kind, column.End, column.Over = row.Kind, row.EndOfLife, row.Over
			if row.Lags {
				column.Newest = row.Newest
			}
		}
		r.page.Drivers = append(r.page.Drivers, column)
	}
}

// folderOf refuses a file to write that has no folder, before minutes are spent on what would be in it.
func folderOf(flag, file string) error {
	info, err := os.Stat(filepath.Dir(file))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", filepath.Dir(file))
	}
	if err != nil {
		return usageError{fmt.Errorf("%s %s: %w", flag, file, err)}
	}
	return nil
}

// replaceFile puts a new text in the place of a file, whole or not at all. With check, it is asked right before, and its error
// keeps the file as it is.
func replaceFile(file string, text []byte, mode os.FileMode, check func() error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	return os.Rename(tmp.Name(), file)
}
