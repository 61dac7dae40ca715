package rehearse

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// driverContainer is the name of the driver's container in the chart's pods.
const driverContainer = "nvidia-driver-ctr"

// maxRendered bounds a file of values, and what helm prints: a release is 1 MiB at most.
const maxRendered = 4 << 20

// object is a Kubernetes object, as far as a rehearsal reads it.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct{ Template struct{ Spec podSpec } }
}

type podSpec struct {
	InitContainers []containerSpec `yaml:"initContainers"`
	Containers     []containerSpec
	Volumes        []volume
}

type containerSpec struct {
	Name    string
	Image   string
	Command []string
	Args    []string
	Env     []variable
	EnvFrom []any   `yaml:"envFrom"`
	Mounts  []mount `yaml:"volumeMounts"`
}

type variable struct {
	Name      string
	Value     string
	ValueFrom *struct {
		FieldRef *struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type mount struct {
	Name        string
	MountPath   string `yaml:"mountPath"`
	SubPath     string `yaml:"subPath"`
	ReadOnly    bool   `yaml:"readOnly"`
	Propagation string `yaml:"mountPropagation"`
}

type volume struct {
	Name      string
	HostPath  *struct{ Path, Type string } `yaml:"hostPath"`
	ConfigMap *struct{ Name string }       `yaml:"configMap"`
	EmptyDir  *struct{}                    `yaml:"emptyDir"`
}

// CheckValues finds mistakes in the names of a chart and of a file of values. It reads no chart of a
// registry.
func CheckValues(chart, values string) error {
	_, err := bounded.Text(values, maxRendered)
	if err != nil {
		return fmt.Errorf("read the values: %w", err)
	}
	if strings.HasPrefix(chart, "oci://") {
		return nil
	}
	_, err = bundle.ReadChart("localhost/chart", chart)
	return err
}

// Render returns the driver's pod as a chart makes it of a file of values, by helm. The chart is a
// folder, an archive, or what else helm takes. Of several pools it is the pod of the image.
func Render(ctx context.Context, chart, values, image string) (pod Pod, err error) {
	defer func() { err = failure.Of(failure.Usage, err) }()
	text, err := runHelm(ctx, chart, values)
	if err != nil {
		return Pod{}, fmt.Errorf("render the chart %s with %s: %w", chart, values, err)
	}
	objects, err := parseObjects(text)
	if err != nil {
		return Pod{}, fmt.Errorf("read what the chart %s makes of %s: %w", chart, values, err)
	}
	spec, err := choosePod(objects, image)
	if err != nil {
		return Pod{}, fmt.Errorf("find the driver in what the chart %s makes of %s: %w", chart, values, err)
	}
	return spec.pod(objects), nil
}

// runHelm returns the objects that helm template prints.
func runHelm(ctx context.Context, chart, values string) ([]byte, error) {
	helm, err := exec.LookPath("helm")
	if err != nil {
		return nil, errors.New("there is no program helm: install Helm 3 or 4, which renders the values as a cluster would get them")
	}
	cmd := exec.CommandContext(ctx, helm, "template", "nvidia-driver", chart, //nolint:gosec // the user's own chart
		"--namespace", "nvidia-driver", "--values", values)
	stdout := bounded.Buffer{Limit: maxRendered}
	stderr := bounded.Buffer{Limit: maxMessage}
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	err = cmd.Run()
	if err != nil {
		return nil, fmt.Errorf("helm template: %w: %s", err, message(string(stderr.Kept)))
	}
	if stdout.More {
		return nil, bounded.TooLarge(maxRendered)
	}
	return stdout.Kept, nil
}

// parseObjects reads documents of YAML.
func parseObjects(text []byte) (all []object, err error) {
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		err = documents.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
}

// choosePod returns the pod of a DaemonSet with the driver: the only one, or that of the image.
func choosePod(objects []object, image string) (*podSpec, error) {
	var found []*podSpec
	var images []string
	for i := range objects {
		spec := &objects[i].Spec.Template.Spec
		c := spec.driver()
		if objects[i].Kind == "DaemonSet" && c != nil {
			found = append(found, spec)
			images = append(images, c.Image)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no DaemonSet has a container %s: is it the chart of this project (deploy/chart), and are the values for it?", driverContainer)
	}
	for i, other := range images {
		if other == image || tag(other) != "" && tag(other) == tag(image) {
			return found[i], nil
		}
	}
	return nil, fmt.Errorf("there are several pools, and none has the image %s: they have %s", image, strings.Join(images, ", "))
}

// tag is the tag of an image in a registry, in a layout or in an archive; "" without one.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := path.Base(image)
	last := name[strings.LastIndex(name, ":")+1:]
	if last == name || imagename.CheckTag(last) != nil {
		return ""
	}
	return last
}

func (s *podSpec) driver() *containerSpec {
	i := slices.IndexFunc(s.Containers, func(c containerSpec) bool { return c.Name == driverContainer })
	if i < 0 {
		return nil
	}
	return &s.Containers[i]
}

// fields are what a pod knows of itself and of its node, in a guest.
var fields = map[string]string{
	"spec.nodeName":      "rehearsal",
	"metadata.name":      "nvidia-driver-rehearsal",
	"metadata.namespace": "nvidia-driver",
	"metadata.uid":       "00000000-0000-4000-8000-000000000001",
	"status.hostIP":      "127.0.0.1",
	"status.podIP":       "127.0.0.1",
}

// ofCluster are variables about the API server, which a guest does not have. With them the driver
// waits for a permission, or writes to nobody.
var ofCluster = []string{
	"DRIVER_EVENTS", "DRIVER_NODE_CONDITION", "DRIVER_STARTUP_TAINT", "DRIVER_SAFE_LOAD",
}

// pod makes a pod of a guest.
func (s *podSpec) pod(objects []object) Pod {
	c := s.driver()
	p := Pod{Files: map[string]string{}, Container: guest.Container{Command: c.Command, Args: c.Args}}
	for _, init := range s.InitContainers {
		p.leave("the container %s", init.Name)
	}
	if len(c.EnvFrom) > 0 {
		p.leave("the variables of secretEnv")
	}
	for _, v := range c.Env {
		value := v.Value
		known := v.ValueFrom == nil
		if !known && v.ValueFrom.FieldRef != nil {
			value, known = fields[v.ValueFrom.FieldRef.FieldPath]
		}
		switch {
		case v.Name == "DRIVER_TERMINATION_LOG": // a guest mounts its own, as a kubelet does
		case slices.Contains(ofCluster, v.Name):
			p.leave("%s, because there is no API server", v.Name)
		case !known:
			p.leave("the variable %s, whose value is in the cluster", v.Name)
		default:
			p.Container.Env = append(p.Container.Env, v.Name+"="+value)
		}
	}
	for _, m := range c.Mounts {
		i := slices.IndexFunc(s.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 {
			p.leave("what is mounted at %s: there is no volume %s", m.MountPath, m.Name)
			continue
		}
		p.mount(m, s.Volumes[i], objects)
	}
	return p
}

func (p *Pod) leave(format string, args ...any) {
	p.Left = append(p.Left, fmt.Sprintf(format, args...))
}

// mount adds a volume of a pod.
func (p *Pod) mount(m mount, v volume, objects []object) {
	to := guest.Mount{
		Guest:    m.MountPath,
		ReadOnly: m.ReadOnly,
		Shared:   m.Propagation == "Bidirectional",
	}
	switch {
	case v.HostPath != nil && v.HostPath.Path == "/dev" && m.MountPath == "/dev":
		p.Container.HostDev = true
		return
	case v.HostPath != nil:
		to.Host = path.Join(v.HostPath.Path, m.SubPath)
		to.File = strings.HasPrefix(v.HostPath.Type, "File")
	case v.EmptyDir != nil:
		to.Host = path.Join("/run/rehearse/empty", v.Name, m.SubPath)
	case v.ConfigMap != nil:
		i := slices.IndexFunc(objects, func(o object) bool {
			return o.Kind == "ConfigMap" && o.Metadata.Name == v.ConfigMap.Name
		})
		if i < 0 {
			p.leave("%s of the ConfigMap %s, which is not the chart's", m.MountPath, v.ConfigMap.Name)
			return
		}
		to.Host = path.Join("/run/rehearse/config", v.ConfigMap.Name)
		for key, text := range objects[i].Data {
			p.Files[path.Join(to.Host, key)] = text
		}
		to.Host = path.Join(to.Host, m.SubPath)
		to.File = m.SubPath != ""
	default:
		p.leave("what is mounted at %s: %s", m.MountPath, cmp.Or(v.Name, "a volume"))
		return
	}
	p.Container.Mounts = append(p.Container.Mounts, to)
}
