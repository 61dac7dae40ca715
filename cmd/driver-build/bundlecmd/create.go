package bundlecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/gathering"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/writing"
	"github.com/driver-container/driver-container/images/helmchart"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

const createLong = `Write images into a file, with everything that belongs to them: signatures, attestations, SBOMs and other referrers, found by
the registry's API, the fallback tag, and the tags .sig and .att. Without IMAGE, all images of --repository are taken,
or those of --os and --driver.

IMAGE is REGISTRY/PATH:TAG, oci:DIR:TAG or oci-archive:FILE:TAG; the last two are put into --repository. The same input gives the
same bytes if SOURCE_DATE_EPOCH is its time. --since leaves out what the site has: an earlier bundle, its list
(bundle list -o json), or the answer of bundle have.`

// createFlags are the flags of bundle create.
type createFlags struct {
	gathering.Selection
	targets flags.Selection
	output  string
	since   []string
	fetched string
	key     flags.ImageKey
	headers []string // releases of kernels
}

func (o *createFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.output, "output", "", "FILE to write; - is stdout")
	f.StringVar(&o.Origin, "repository", "", "REGISTRY/PATH of the images; the import puts another name in its place")
	f.StringSliceVar(&o.targets.Systems, "os", nil, "of the repository, only images of this operating system (repeatable)")
	f.StringSliceVar(&o.targets.Drivers, "driver", nil, "of the repository, only images of this driver version (repeatable)")
	o.targets.AddMatrix(f)
	f.StringArrayVar(&o.Charts, "chart", nil, "chart to take along: DIR, FILE.tgz or oci://REGISTRY/PATH:VERSION (repeatable)")
	f.StringArrayVar(&o.Bases, "base", nil, "base image to take along, REGISTRY/PATH:TAG (repeatable)")
	flags.Images(f, "base")
	f.StringArrayVar(&o.Files, "file", nil, "file to take along, such as matrix.lock or a package; a matrix brings its patches and keys (repeatable)")
	f.StringVar(&o.fetched, "inputs", "", "take along the inputs of builds, which driver-build fetch printed into FILE")
	f.StringSliceVar(&o.headers, "headers", nil, "take along a mirror with the headers of this kernel, for nodes that compile (repeatable)")
	f.StringVar(&o.FileTag, "file-tag", "files", "tag of the artifacts with the files of --file and --inputs, and of --headers")
	f.StringArrayVar(&o.since, "since", nil, "leave out blobs of FILE: an earlier bundle, or a list of what the site has (repeatable)")
	o.key.AddTo(f, "the bundle")
}

func newCreate(a *session.App) *cobra.Command {
	var o createFlags
	cmd := &cobra.Command{
		Use: "create --output FILE --repository REGISTRY/PATH [IMAGE...]", Short: "Write a bundle", Long: createLong,
		Example: "  driver-build bundle create --output fleet.tar --repository registry.example.com/gpu/driver --chart deploy/chart",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, ref := range args {
				o.Images = append(o.Images, oci.Named(ref))
			}
			return o.run(cmd.Context(), a)
		},
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *createFlags) run(ctx context.Context, a *session.App) (err error) {
	if o.output == "" {
		return session.Usagef("--output: give the file to write")
	}
	if o.output != "-" {
		if err := outfile.Check(o.output); err != nil {
			return session.Usagef("--output: %w", err)
		}
	}
	if err := imagename.CheckRepository(o.Origin); err != nil {
		return session.Usagef("--repository: %w", err)
	}
	if err := errors.Join(o.checkSources(), o.selectTags(a), o.addBeside(a)); err != nil {
		return err
	}
	if o.fetched != "" {
		raw, err := bounded.File(o.fetched, bundle.MaxDocument)
		if err != nil {
			return session.Usagef("--inputs: %w", err)
		}
		o.Fetched = string(raw)
	}
	stocks, err := readStocks(o.since)
	if err != nil {
		return err
	}
	created, err := a.Now()
	if err != nil {
		return session.Usage(err)
	}
	sign, closer, err := signer(a, &o.key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer()) }()
	return a.With(ctx, nil, a.Programs(ctx, "", true), func(ctx context.Context, s *session.Session) (err error) {
		artifacts, err := gathering.Gather(ctx, s.Registry, o.Selection)
		if err != nil {
			return err
		}
		closeMirror, err := o.mirror(ctx, s, &artifacts)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeMirror()) }()
		info := session.BuildInfo()
		plan, err := writing.Prepare(ctx, writing.Options{
			Origin: o.Origin, Created: created.Unix(), Tool: "driver-build " + info.Version, Since: stocks, Sign: sign,
		}, artifacts)
		if err != nil {
			return err
		}
		return o.write(ctx, a, s, plan)
	})
}

// checkSources says what is wrong with the names of images, charts and files.
func (o *createFlags) checkSources() error {
	for _, release := range o.headers {
		if err := recipe.CheckRelease(release); err != nil {
			return session.Usagef("--headers: %w", err)
		}
	}
	for _, ref := range o.Images {
		if err := registry.CheckSource(ref); err != nil {
			return session.Usage(err)
		}
	}
	for _, ref := range o.Bases {
		if err := registry.CheckSource(ref); err != nil {
			return session.Usagef("--base: %w", err)
		}
	}
	for _, name := range o.Charts {
		ref, remote := strings.CutPrefix(name, "oci://")
		var err error
		if remote {
			err = imagename.CheckImage(ref)
		} else {
			_, err = helmchart.Read(name)
		}
		if err != nil {
			return session.Usagef("--chart: %w", err)
		}
	}
	for _, name := range o.Files {
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			return session.Usagef("--file %s: it is no regular file that can be read", name)
		}
	}
	if err := imagename.CheckTag(o.FileTag); err != nil {
		return session.Usagef("--file-tag: %w", err)
	}
	return nil
}

// selectTags makes --os and --driver choose among the tags of the repository.
func (o *createFlags) selectTags(a *session.App) error {
	if len(o.targets.Systems)+len(o.targets.Drivers) == 0 {
		return nil
	}
	if len(o.Images) > 0 {
		return session.Usagef("--os and --driver choose among the images of --repository: name no images, or leave them out")
	}
	o.targets.All, o.targets.Archs = true, batch.Archs() // a tag may be of any
	_, b, err := o.targets.Batch(a, nil)
	if err != nil {
		return err
	}
	o.Keep = func(tag string) bool {
		return slices.ContainsFunc(b.Targets, func(t matrix.Target) bool { return recipe.HasTag(t, tag) })
	}
	return nil
}

func (o *createFlags) write(ctx context.Context, a *session.App, s *session.Session, plan *writing.Plan) error {
	shown := steps{observe: s.Observe, name: "write"}
	fill := func(w io.Writer) error { return plan.Write(ctx, w, shown.total(o.output)) }
	if o.output == "-" {
		return shown.end(fill(a.Stdout))
	}
	if err := shown.end(outfile.Write(ctx, o.output, fill)); err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "%s: %.1f MB\n", o.output, float64(plan.Size)/1e6)
	a.Result(o.output)
	return nil
}

// readStocks reads the files of --since.
func readStocks(names []string) (all []bundle.Stock, err error) {
	for _, n := range names {
		s, err := readStock(n)
		if err != nil {
			return nil, fmt.Errorf("--since %s: %w", n, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func readStock(name string) (bundle.Stock, error) {
	info, err := os.Stat(name)
	if err != nil {
		return bundle.Stock{}, session.Usage(err)
	}
	if !strings.HasSuffix(name, ".tar") && info.Size() <= 2*bundle.MaxDocument {
		raw, err := bounded.File(name, 2*bundle.MaxDocument)
		if err != nil {
			return bundle.Stock{}, session.Usage(err)
		}
		s, err := bundle.DecodeStock(raw)
		if err != nil {
			err = session.Usage(err)
		}
		return s, err
	}
	source, closer, err := open(name)
	if err != nil {
		return bundle.Stock{}, err
	}
	defer closer() //nolint:errcheck // read only
	b, err := reading.Load(source)
	if err != nil {
		return bundle.Stock{}, err
	}
	return b.List.Stock(b.Raw)
}
