// Package verify reads any image, of this project or not: Verify checks it against what the rest of
// the stack expects of a driver container, Inspect says what it holds.
package verify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/escape"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Severity of a finding.
type Severity string

// Only errors make an image unfit. A warning is about something that other programs may refuse.
// Notes are things that some users of the image need and others do not.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Finding is one thing that Verify saw. The path is as the image has it.
type Finding struct {
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"`
	Path     string   `json:"path,omitempty"`
	Message  string   `json:"message"`
}

// NewFinding makes a finding of a message, a path or "" in an image, and the arguments of
// fmt.Sprintf. Names of files, labels and links are whatever the image says, so that the message is
// made one line.
func NewFinding(severity Severity, rule, path, format string, args ...any) Finding {
	return Finding{severity, rule, path, escape.Line(fmt.Sprintf(format, args...))}
}

// String is the finding as text. It has several lines only if the message has, such as that of a
// compiler.
func (f Finding) String() string {
	where := ""
	if f.Path != "" {
		where = escape.Line(f.Path) + ": "
	}
	return escape.Text(fmt.Sprintf("%s: %s: %s%s", f.Severity, f.Rule, where, f.Message))
}

// ErrUnfit means that Verify has findings that are errors.
var ErrUnfit = failure.New(failure.Content, "the image breaks the driver container's contract")

// Unfit returns ErrUnfit when one of the findings is an error.
func Unfit(findings []Finding) error {
	n := 0
	for _, f := range findings {
		if f.Severity == Error {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d errors", ErrUnfit, n)
}

// subject is an image under examination: its facts, which are read once, and what rules found.
type subject struct {
	tree   *rootfs.Tree
	all    []*rootfs.Entry // of the tree
	config *v1.ConfigFile

	rawConfig   []byte
	annotations map[string]string // of the manifest

	described bool // the image has the layers and the configuration that its description names

	info    driverinfo.Description // of the image; only without infoErr
	infoErr error
	version string       // the driver's, once a rule has found it
	drivers []driverFile // the driver's libraries and programs
	sets    []ModuleSet

	libraryDirs, programDirs []string // folders of the image

	wantSigned bool // each module must be signed by one of the caller's certificates

	rule     string // the one that runs
	findings []Finding
}

// find adds a finding: its severity, a path or "", and the message.
func (s *subject) find(sev Severity, path, format string, args ...any) {
	s.findings = append(s.findings, NewFinding(sev, s.rule, path, format, args...))
}

// fail adds an error.
func (s *subject) fail(path, format string, args ...any) { s.find(Error, path, format, args...) }

// rule is one check. Rules run in the order of the table; a later one may rely on what an earlier
// one found.
type rule struct {
	name  string
	check func(*subject)
}

// rules are what the consumers of a driver root demand of an image: the GPU Operator's validator
// and startup probe, the container toolkit, the device plugin (internal/driver/root.go,
// internal/lookup/root, startup-probe.sh of these projects).
func rules() []rule {
	return []rule{
		{"driver-version", checkVersion},
		{"annotations", checkAnnotations},
		{"library-directory", checkLibraryDir},
		{"relative-links", checkLinks},
		{"elf", ofDriver(checkELF)},
		{"elf-machine", ofDriver(checkMachine)},
		{"soname", ofDriver(checkSoname)},
		{"dependencies", ofDriver(checkNeeded)},
		{"loaded-by-name", checkLoaded},
		{"permissions", checkPermissions},
		{"firmware", checkFirmware},
		{"kernel-sources", checkSources},
		{"toolchain", checkToolchain},
		{"entrypoint", checkEntrypoint},
		{"programs", checkPrograms},
		{"environment", checkEnvironment},
		{"start", checkStart},
		{"licence", checkLicence},
		{"fabric", checkFabric},
		{"vgpu", checkGuest},
		{"description", checkDescription},
		{"modules", checkModules},
		{"module-signature", checkModuleSignatures},
	}
}

// beyondModules are the rules about what an image of modules does not have.
var beyondModules = []string{
	"library-directory",
	"firmware",
	"kernel-sources",
	"entrypoint",
	"programs",
	"environment",
	"vgpu",
}

// modulesOnly says whether the image is one of modules, by its description.
func (s *subject) modulesOnly() bool {
	return s.infoErr == nil && s.info.Profile == string(recipe.ModulesOnly)
}

// Examiner reads images.
type Examiner struct {
	Store   *fetch.Store // for files that are read by their names, and the spool
	Observe progress.Observer
}

// Options say what an image is compared with, besides the rules.
type Options struct {
	// Signers are certificates: each module that was compiled ahead of time must be signed by the key
	// of one of them. nil: by that of its own set's certificate, if it has one.
	Signers []*x509.Certificate
	// AllowedLayers are digests or diff IDs of layers that may lie on those of the build.
	AllowedLayers []v1.Hash
}

// Verify checks any image, of this project or not. One that driver-build made must have the layers
// and the configuration that its description names; if it has others, that is all that is found. All
// images are checked against what the rest of the stack expects of a driver container. Verify
// returns all findings; errors are only about reading the image. The spool's folder needs room for
// the unpacked image.
func (e Examiner) Verify(
	ctx context.Context,
	name string,
	img v1.Image,
	o Options,
) (findings []Finding, err error) {
	s, err := newSubject(img)
	if err != nil {
		return nil, err
	}
	layers, err := layersOf(img)
	if err != nil {
		return nil, err
	}
	s.rule = "layers"
	s.described, err = s.compareImage(ctx, e.Store, layers, o.AllowedLayers)
	if err == nil && Unfit(s.findings) == nil {
		err = e.unpacked(ctx, name, "verify", img, nil, func(tree *rootfs.Tree) error {
			return s.examine(ctx, e.Store, tree, o.Signers)
		})
	}
	if errors.Is(err, fs.ErrNotExist) {
		s.rule = "layers"
		s.fail("", "what the manifest names is not there: %v", err)
		return s.findings, nil
	}
	return s.findings, err
}

// newSubject reads the configuration and the manifest of an image.
func newSubject(img v1.Image) (*subject, error) {
	config, errConfig := img.ConfigFile()
	raw, errRaw := img.RawConfigFile()
	manifest, errManifest := img.Manifest()
	err := errors.Join(errConfig, errRaw, errManifest)
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration and manifest: %w", err)
	}
	return &subject{config: config, rawConfig: raw, annotations: manifest.Annotations}, nil
}

// unpacked passes the files of an image to use: the names of all, the content of those that keep
// selects.
func (e Examiner) unpacked(
	ctx context.Context,
	name, what string,
	img v1.Image,
	keep func(string) bool,
	use func(*rootfs.Tree) error,
) (err error) {
	step := e.Observe.Begin(name, what)
	defer func() { _ = step.End(false, err) }() // the error goes to the caller as well
	spool, err := rootfs.NewSpool(e.Store.Dir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	tree, err := layer.Flatten(ctx, img, spool, keep, step)
	if err != nil {
		return err
	}
	return use(tree)
}

// examine runs the rules over the files of the image.
func (s *subject) examine(
	ctx context.Context,
	store *fetch.Store,
	tree *rootfs.Tree,
	signers []*x509.Certificate,
) (err error) {
	s.tree = tree
	s.all = tree.All()
	s.wantSigned = len(signers) > 0
	s.findFolders()
	s.findDriver()
	s.info, s.infoErr = driverinfo.Read(tree.OpenFS())
	s.checkVersionOfBuild()
	s.sets, err = moduleSets(ctx, store, tree, signers)
	if err != nil {
		return err
	}
	for _, r := range rules() {
		s.rule = r.name
		if !s.modulesOnly() || !slices.Contains(beyondModules, r.name) {
			r.check(s)
		}
	}
	return ctx.Err()
}

// checkVersionOfBuild is about images of driver-build whose layers no description proves.
func (s *subject) checkVersionOfBuild() {
	switch {
	case s.described || s.infoErr != nil:
	case len(s.info.Layers) > 0:
		s.fail(
			driverinfo.Path,
			"names the layers of the image, and is not in a layer of its own: another program made one layer of several",
		)
	default:
		s.find(
			Note,
			driverinfo.Path,
			"names no layers, because an older version made the image: it is judged as an image of others; build it again",
		)
	}
}
