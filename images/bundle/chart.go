package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/oci"
)

// The media types of Helm's OCI artifacts (helm.sh/helm/v3/pkg/registry).
const (
	chartConfigType types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartType       types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Bounds of a chart. Ours has 30 files and 100 KB.
const (
	maxChart = 20 << 20 // bytes, unpacked; Helm's own bound
	maxFiles = 10_000
	maxMeta  = 1 << 20 // bytes of Chart.yaml
)

const chartFile = "Chart.yaml"

var (
	chartName    = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)
	chartVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)
)

// ReadChart makes the OCI artifact of a Helm chart, as `helm push` does, without Helm: of a folder
// with Chart.yaml, or of the archive that `helm package` makes, whose bytes stay. The same chart
// gives the same digest. Its repository is below origin.
func ReadChart(origin, file string) (a Artifact, err error) {
	defer failure.Wrap(&err, "read the chart %s", file)
	info, err := os.Stat(file)
	if err != nil {
		return a, err
	}
	if info.IsDir() {
		meta, err := bounded.File(filepath.Join(file, chartFile), maxMeta)
		if err != nil {
			return a, err
		}
		return newChart(origin, meta, func(name string) ([]byte, error) { return packChart(file, name) })
	}
	archive, err := bounded.File(file, maxChart)
	if err != nil {
		return a, err
	}
	meta, err := findMeta(archive)
	if err != nil {
		return a, err
	}
	return newChart(origin, meta, func(string) ([]byte, error) { return archive, nil })
}

// findMeta reads Chart.yaml in an archive, at DIR/Chart.yaml.
func findMeta(archive []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("it is neither a folder nor an archive of a chart: %w", err)
	}
	r := tar.NewReader(io.LimitReader(z, maxChart))
	for range maxFiles {
		h, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("it is no archive of a chart with a Chart.yaml: %w", err)
		}
		dir, base := path.Split(h.Name)
		if base == chartFile && strings.Count(dir, "/") == 1 {
			return bounded.Read(r, maxMeta)
		}
	}
	return nil, fmt.Errorf("it has more than %d members", maxFiles)
}

// newChart makes the artifact of Chart.yaml and of the archive of a chart with its name.
func newChart(
	origin string,
	meta []byte,
	archive func(name string) ([]byte, error),
) (a Artifact, err error) {
	fields := map[string]any{}
	err = yaml.Unmarshal(meta, &fields)
	if err != nil {
		return a, fmt.Errorf("its Chart.yaml is malformed: %w", err)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return a, fmt.Errorf("its Chart.yaml is malformed: %w", err)
	}
	name, _ := fields["name"].(string)
	version, _ := fields["version"].(string)
	if !chartName.MatchString(name) || !chartVersion.MatchString(version) {
		return a, fmt.Errorf(
			"its Chart.yaml has the name %q and the version %q, which are no name and version of a chart",
			name, version,
		)
	}
	packed, err := archive(name)
	if err != nil {
		return a, err
	}
	config := oci.BytesBlob(chartConfigType, text, nil)
	layer := oci.BytesBlob(chartType, packed, nil)
	d, err := oci.NewManifest(v1.Manifest{
		Config: config.Desc, Layers: []v1.Descriptor{layer.Desc},
		Annotations: map[string]string{
			TitleAnnotation:                    name,
			"org.opencontainers.image.version": version,
		},
	})
	return Artifact{
		Kind:       Chart,
		Title:      name + " " + version,
		Repository: origin + "/charts/" + name,
		Tags:       []string{strings.ReplaceAll(version, "+", "_")},
		Content: &oci.Content{
			Blobs: []oci.Blob{layer, config}, Documents: []oci.Document{d},
		},
	}, err
}

// packChart makes the archive of a chart in a folder: files below a folder of its name, all of
// 1970, without those that .helmignore names. Links are refused: they could lead anywhere.
func packChart(dir, name string) ([]byte, error) {
	ignored, err := readIgnored(filepath.Join(dir, ".helmignore"))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	size := 0
	files := 0
	err = fs.WalkDir(os.DirFS(dir), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		skip, err := ignored.MatchesOrParentMatches(file)
		if err != nil || skip {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", file)
		}
		content, err := bounded.File(filepath.Join(dir, file), maxChart)
		if err != nil {
			return err
		}
		size += len(content)
		files++
		if size > maxChart || files > maxFiles {
			return fmt.Errorf("it has more than %d bytes or %d files", maxChart, maxFiles)
		}
		err = w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg,
			Name:     name + "/" + file,
			Size:     int64(len(content)),
			Mode:     0o644,
			ModTime:  time.Unix(0, 0),
		})
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	err = errors.Join(err, w.Close(), z.Close())
	return out.Bytes(), err
}

// readIgnored reads .helmignore. A pattern without a folder is for all folders.
func readIgnored(name string) (*patternmatcher.PatternMatcher, error) {
	raw, err := bounded.File(name, maxMeta)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	patterns, err := ignorefile.ReadAll(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	for n, p := range patterns {
		if !strings.Contains(p, "/") {
			patterns[n] = strings.Replace("**/"+p, "**/!", "!**/", 1)
		}
	}
	return patternmatcher.New(patterns)
}
