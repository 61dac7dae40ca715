package bundlecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/workdir"
)

const createLong = `Write images into a file, with everything that belongs to them: signatures, attestations, SBOMs and other referrers, found by
the registry's API, the fallback tag, and the tags .sig and .att. Without IMAGE, all images of --repository are taken,
or those of --os and --driver.

IMAGE is REGISTRY/PATH:TAG, oci:DIR:TAG or oci-archive:FILE:TAG; the last two are put into --repository. The same input gives the
same bytes if SOURCE_DATE_EPOCH is its time. --since leaves out what the site has: an earlier bundle, its list
(bundle list -o json), or the answer of bundle have.`

// createFlags are the flags of bundle create.
type createFlags struct {
	bundle.Selection
	targets flags.Targets
	output  string
	files   []string
	since   []string
	fetched string
	key     flags.ImageKey
}

func newCreate(a *session.App) *cobra.Command {
	var o createFlags
	cmd := &cobra.Command{
		Use: "create --output FILE --repository REGISTRY/PATH [IMAGE...]", Short: "Write a bundle", Long: createLong,
		Args:    session.ImageArgs(cobra.ArbitraryArgs),
		Example: "  driver-build bundle create --output fleet.tar --repository registry.example.com/gpu/driver --chart deploy/chart",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Images = args
			return o.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	f.Var(
		session.String(&o.output, session.Valid(outfile.Check).Or("-")),
		"output",
		"`FILE` to write; - is stdout",
	)
	f.StringVar(&o.Origin, "repository", "", "`REGISTRY/PATH` of the images; the import puts another name in its place")
	f.StringSliceVar(&o.targets.Selection.Systems, "os", nil, "of the repository, only images of this `SYSTEM` (repeatable)")
	f.StringSliceVar(&o.targets.Selection.Drivers, "driver", nil, "of the repository, only images of this driver `VERSION` (repeatable)")
	o.targets.Matrix.AddTo(f)
	f.StringArrayVar(&o.Charts, "chart", nil, "chart to take along: `DIR`, FILE.tgz or oci://REGISTRY/PATH:VERSION (repeatable)")
	f.Var(
		session.Array(&o.Bases, session.Image),
		"base",
		"base `IMAGE` to take along, REGISTRY/PATH:TAG (repeatable)",
	)
	f.StringArrayVar(&o.files, "file", nil, "`FILE` to take along, such as matrix.lock or a package; a matrix brings its patches and keys (repeatable)")
	f.StringVar(&o.fetched, "inputs", "", "take along the inputs of builds, which driver-build fetch printed into `FILE`")
	f.Var(
		session.Slice(&o.Headers, session.Valid(recipe.CheckRelease)),
		"headers",
		"take along a mirror with the headers of this kernel `RELEASE`, for nodes that compile "+
			"(repeatable)",
	)
	o.FileTag = "files"
	session.Rare(f, func(f *pflag.FlagSet) {
		f.Var(
			session.String(&o.FileTag, session.Valid(imagename.CheckTag)),
			"file-tag",
			"tag of the artifacts with the files of --file and --inputs, and of --headers",
		)
	})
	f.StringArrayVar(&o.since, "since", nil, "leave out blobs of `FILE`: an earlier bundle, or a list of what the site has (repeatable)")
	o.key.AddTo(f, "the bundle")
	return cmd
}

func (o *createFlags) run(ctx context.Context, a *session.App) (err error) {
	if err := errors.Join(o.check(), o.selectTags(a), o.addFiles(a)); err != nil {
		return err
	}
	options := bundle.Options{Origin: o.Origin, Tool: "driver-build " + session.BuildInfo().Version}
	for _, name := range o.since {
		stock, err := readStock(a, name)
		if err != nil {
			return fmt.Errorf("--since %s: %w", name, err)
		}
		options.Since = append(options.Since, stock)
	}
	created, err := a.Now()
	if err != nil {
		return session.Usage(err)
	}
	options.Created = created.Unix()
	options.Sign, err = o.key.Load(a)
	if err != nil {
		return err
	}
	return a.Connect(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		artifacts, err := bundle.Gather(ctx, s.Builder.Registry, o.Selection)
		if err != nil {
			return err
		}
		if len(o.Headers) > 0 {
			dir, err := headersDir(a, s.Builder.Store.Dir())
			if err != nil {
				return err
			}
			mirror, err := bundle.RecordHeaders(ctx, s.Builder, o.Selection, artifacts, dir)
			if err != nil {
				return fmt.Errorf("--headers: %w", err)
			}
			artifacts = append(artifacts, mirror)
		}
		plan, err := bundle.Prepare(ctx, options, artifacts)
		if err != nil {
			return err
		}
		return o.write(ctx, a, s, plan)
	})
}

// check says what is wrong with the flags, before anything is asked or read.
func (o *createFlags) check() error {
	if o.output == "" {
		return session.Usagef("--output: give the file to write")
	}
	if err := imagename.CheckRepository(o.Origin); err != nil {
		return session.Usagef("--repository: %w", err)
	}
	if o.fetched == "" {
		return nil
	}
	raw, err := textfile.Read(o.fetched, bundle.MaxDocument)
	if err != nil {
		return session.Usagef("--inputs: %w", err)
	}
	o.Fetched = string(raw)
	return nil
}

// selectTags makes --os and --driver choose among the tags of the repository.
func (o *createFlags) selectTags(a *session.App) error {
	s := &o.targets.Selection
	if len(s.Systems)+len(s.Drivers) == 0 {
		return nil
	}
	if len(o.Images) > 0 {
		return session.Usagef(
			"--os and --driver choose among the images of --repository: name no images, or leave them out",
		)
	}
	m, err := o.targets.Load(a)
	if err != nil {
		return err
	}
	s.All = true
	s.Archs = matrix.Archs() // a tag may be of any
	targets, err := m.Select(*s)
	if err != nil {
		return session.Usage(err)
	}
	if len(targets) == 0 {
		return session.Usagef("no pair of the matrix is left: driver-build list says why")
	}
	o.Keep = func(tag string) bool {
		return slices.ContainsFunc(
			targets,
			func(t matrix.Target) bool { return recipe.HasTag(t, tag) },
		)
	}
	return nil
}

// addFiles takes along files, and the patches and the keys of repositories that a matrix of --file
// names: without them the site cannot read it. They come to the same place beside it. A key that is
// elsewhere stays out, with a warning.
func (o *createFlags) addFiles(a *session.App) error {
	for _, file := range o.files {
		o.Files = append(o.Files, bundle.File{Path: file})
		names, err := matrix.NamedFiles(file)
		if err != nil {
			return session.Usagef("--file %s: %w", file, err)
		}
		for _, name := range names {
			if title := filepath.ToSlash(name); bundle.CheckPath(bundle.Inputs, title) == nil {
				o.Files = append(
					o.Files,
					bundle.File{Path: filepath.Join(filepath.Dir(file), name), Title: title},
				)
				continue
			}
			fmt.Fprintf(
				a.Stderr,
				"warning: %s names %s, which the import could not put beside it: the site needs this file at the same place\n",
				file,
				name,
			)
		}
	}
	return nil
}

// headersDir returns a folder in the cache, which stays until the command ends.
func headersDir(a *session.App, cache string) (string, error) {
	const prefix = "headers-"
	err := workdir.Sweep(cache, prefix)
	if err != nil {
		return "", fmt.Errorf("remove what a killed call left: %w", err)
	}
	dir, err := workdir.New(cache, prefix)
	if err != nil {
		return "", err
	}
	a.Defer(dir.Remove)
	return dir.Path, nil
}

func (o *createFlags) write(
	ctx context.Context,
	a *session.App,
	s *session.Session,
	plan *bundle.Prepared,
) error {
	return shown(s.Builder.Observe, "write", o.output, func(report func(done, total int64)) error {
		fill := func(w io.Writer) error { return plan.Write(ctx, w, report) }
		if o.output == "-" {
			return fill(a.Stdout)
		}
		if err := outfile.Write(ctx, o.output, fill); err != nil {
			return err
		}
		fmt.Fprintf(a.Stderr, "%s: %.1f MB\n", o.output, float64(plan.Size)/1e6)
		a.Result(o.output)
		return nil
	})
}

// readStock reads a file of --since: a bundle, its list, or what bundle have printed.
func readStock(a *session.App, name string) (bundle.Stock, error) {
	// the first member of a bundle
	if !strings.HasPrefix(string(bounded.Head(name, 10)), "oci-layout") {
		raw, err := textfile.Read(name, 2*bundle.MaxDocument)
		if err != nil {
			return bundle.Stock{}, session.Usage(err)
		}
		return bundle.DecodeStock(raw)
	}
	file, err := open(a, name)
	if err != nil {
		return bundle.Stock{}, err
	}
	b, err := bundle.Open(file)
	if err != nil {
		return bundle.Stock{}, err
	}
	return bundle.DecodeStock(b.Raw)
}
