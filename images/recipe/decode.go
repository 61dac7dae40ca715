package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/strictjson"
)

// maxBytes bounds a recipe that is read. That of an image with 200 packages has 60 kB.
const maxBytes = 8 << 20

// ErrFormat means that bytes are no recipe that this program can build.
var ErrFormat = failure.New(failure.Content, "not a recipe that this driver-build can build")

// Decode reads a recipe as [Recipe] is marshalled, from anybody: values that could be no option of
// a build are refused, because they become parts of paths, requests and arguments, and so are
// fields that nobody knows, because the image may depend on them. What only a machine knows, the
// Location of images and the Path of programs, is empty. All errors are ErrFormat.
func Decode(data []byte) (*Recipe, error) {
	fail := func(err error) (*Recipe, error) {
		return nil, failure.Errorf(failure.Content, "%w: %w", ErrFormat, err)
	}
	if len(data) > maxBytes {
		return fail(errors.New("it is larger than 8 MiB"))
	}
	r, err := strictjson.Decode[*Recipe](data, json.RejectUnknownMembers(true))
	if err == nil && r == nil {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fail(err)
	}
	err = r.check()
	if err != nil {
		return fail(err)
	}
	r.Distro, _ = distros.Lookup(r.System)
	r.Links = r.Distro.Links()
	r.LibDir = r.Distro.LibDir(r.Arch)
	r.LibDir32 = r.Distro.LibDir32(r.Arch)
	return r, nil
}

// shapes are those of values that become parts of paths and arguments.
var (
	versionShape = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$`)
	moduleShape  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	sha256Shape  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	sha512Shape  = regexp.MustCompile(`^[0-9a-f]{128}$`)
)

// LastEpoch is the end of the year 9999, after which times have no text.
var LastEpoch = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()

// checks collects what is wrong.
type checks []error

func (c *checks) that(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

// check refuses what New and Pin could not have made.
func (r *Recipe) check() error {
	_, errSystem := distros.Lookup(r.System)
	_, errProfile := ParseProfile(string(r.Profile))
	_, errCompression := ParseCompression(string(r.Compression))
	c := checks{errSystem, errProfile, errCompression, matrix.CheckArch(r.Arch)}
	for _, tag := range append([]string{r.Tag}, r.Aliases...) {
		c = append(c, imagename.CheckTag(tag))
	}
	c.that(r.Schema == Version, "its schema is %d, this program builds %d", r.Schema, Version)
	c.that(versionShape.MatchString(r.Driver), "%.80q is no version of a driver", r.Driver)
	c.that(r.Epoch >= 0 && r.Epoch <= LastEpoch, "%d is no time of an image", r.Epoch)
	c.that(r.VGPU == "" || slices.Contains(driverinfo.VGPULicences(), r.VGPU), "%.80q is no licence of a vGPU driver", r.VGPU)
	c.that(r.Signer == "" || sha256Shape.MatchString(r.Signer), "%.80q is no SHA-256 of a certificate", r.Signer)
	c.flavours(slices.Concat(r.Flavours, r.PrecompiledFlavours))
	for _, m := range r.Modules {
		c.that(moduleShape.MatchString(m), "%.80q is no name of a module", m)
	}
	c.image("base", r.Base)
	for _, k := range r.Kernels {
		c = append(c, CheckRelease(k.Release))
		if k.Toolkit != nil {
			c.image("image with kernel "+k.Release, *k.Toolkit)
		}
		c.that(k.Toolkit != nil || k.Signed != nil || len(r.Compiler) > 0, "nothing compiles the modules for kernel %.80q", k.Release)
		for _, flavour := range r.PrecompiledFlavours {
			c.that(k.Signed == nil || len(k.Signed[flavour]) > 0, "no package has the %.80q modules for kernel %.80q", flavour, k.Release)
		}
	}
	c.that(r.Profile != ModulesOnly || len(r.Kernels) > 0 && r.Distroless && len(r.Packages)+len(r.Fabric) == 0 && !r.Sources && !r.KMM,
		"its profile is %s, and it has no kernel, or more than modules", ModulesOnly)
	c.that(len(r.Kernels) == 0 || len(r.PrecompiledFlavours) > 0, "it names kernels, and no flavour of their modules")
	for _, p := range r.AllPackages() {
		c.that(p.Name != "" && p.Version != "" && p.Arch != "", "package %.100q: name, version and architecture must be there", p.Name)
		c.that(sha256Shape.MatchString(p.SHA256) || p.SHA256 == "" && sha512Shape.MatchString(p.SHA512),
			"package %.100q has no SHA-256 and no SHA-512", p.Name)
		c.that(IsWeb(p.URL) && sized(p.Size), "package %.100q: %.200q of %d bytes is no file with an address with http or https",
			p.Name, p.URL, p.Size)
	}
	for _, p := range r.Entrypoint {
		c.that(sha256Shape.MatchString(p.SHA256), "program %.80q has no SHA-256", p.Name)
	}
	c.parts(r)
	return errors.Join(c...)
}

func (c *checks) flavours(all []string) {
	for _, f := range all {
		c.that(
			f == matrix.Proprietary || f == matrix.Open,
			"%.80q is no flavour of kernel modules",
			f,
		)
	}
}

func (c *checks) image(what string, image Base) {
	sum, ok := strings.CutPrefix(image.Digest, "sha256:")
	c.that(ok && sha256Shape.MatchString(sum), "the %s has no digest: %.100q", what, image.Digest)
	if image.Name != "" {
		*c = append(*c, imagename.CheckImage(image.Name))
		c.that(
			!oci.IsLocal(image.Name) && !strings.Contains(image.Name, "@"),
			"the %s %.200q is no REGISTRY/PATH:TAG",
			what,
			image.Name,
		)
	}
}

// parts checks the driver and what belongs to it. Its archive may have been a file of the machine
// that built.
func (c *checks) parts(r *Recipe) {
	archive := func(what string, f fetch.File, web bool) {
		c.that(
			sha256Shape.MatchString(f.SHA256) && sized(f.Size),
			"%.80s: it has no SHA-256 or no size",
			what,
		)
		c.that(web, "%.80s: %.200q is no address with http or https", what, f.URL)
	}
	if file := r.Source.Archive(); file != nil {
		archive("the driver's archive", *file, true)
	}
	ways := []bool{r.Source.Runfile != nil, r.Source.Redist != nil, len(r.Source.Packages) > 0}
	ways = slices.DeleteFunc(ways, func(given bool) bool { return !given })
	c.that(len(ways) == 1, "it does not name the driver, or in several ways")
	for _, f := range r.Fabric {
		c.that(
			slices.Contains(matrix.ComponentNames, f.Name) && f.Version != "",
			"%.80q %.80q is no component of the driver",
			f.Name,
			f.Version,
		)
		archive("component "+f.Name, f.File, IsWeb(f.File.URL))
	}
	for _, p := range r.Companions {
		c.that(
			slices.Contains(driverinfo.Companions(), p.Name) && versionShape.MatchString(p.Version),
			"%.80q %.80q is no companion",
			p.Name,
			p.Version,
		)
		c.that(
			(p.File == nil) != (p.Package == nil),
			"companion %.80q is neither an archive nor a package, or both",
			p.Name,
		)
		if p.File != nil {
			archive("companion "+p.Name, *p.File, IsWeb(p.File.URL))
		}
	}
	for _, p := range r.Patches {
		sum := sha256.Sum256([]byte(p.Text))
		c.flavours(p.Flavours)
		c.that(sha256Shape.MatchString(p.SHA256), "patch %.80q has no SHA-256", p.Name)
		c.that(p.Text == "" || p.URL == "" && hex.EncodeToString(sum[:]) == p.SHA256,
			"the text of patch %.80q does not have the digest, or it has an address too", p.Name)
		c.that(
			p.URL == "" || IsWeb(p.URL),
			"patch %.80q: %.200q is no address with http or https",
			p.Name,
			p.URL,
		)
	}
}

func sized(size int64) bool { return size >= 0 && size < math.MaxInt64 }

// IsWeb says whether a text is an address with http or https.
func IsWeb(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
