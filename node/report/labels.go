package report

import (
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/node/status"
)

// labelPrefix begins the names of all labels. GPU feature discovery uses other names (nvidia.com/gpu.product,
// nvidia.com/cuda.driver-version.*).
const labelPrefix = "nvidia.com/driver."

// label updates the file of Node Feature Discovery. The file stays while the driver is up, even if a GPU or a
// daemon fails for a while or no container runs: removing the labels would remove the pods that were placed
// by them. While an older driver has to be replaced, the labels are that driver's. Before a driver is loaded
// there are no labels: the file outlives a reboot, which a driver does not.
func (r *Reporter) label(st status.Snapshot) {
	if r.o.Features == "" || !st.Holding() {
		return
	}
	var err error
	switch {
	case st.Up == nil:
		err = removeLabels(r.o.Features)
	case st.State == status.Serving, st.State == status.Restored:
		gpus := make([]labelledGPU, 0, len(st.GPUs))
		for _, g := range st.GPUs {
			if !g.Expected() {
				continue
			}
			gpus = append(gpus, labelledGPU{Model: gpuModel(g.Name, r.o.Proc, g.Address, g.ID), Works: g.Works})
		}
		err = writeLabels(r.o.Features, labelsOf(st.Up.Version, st.Up.Flavour, st.Up.CUDA, gpus, len(st.GPUs)-len(gpus)))
	}
	switch {
	case err == nil:
		r.features = ""
	case r.features == "":
		r.features = err.Error()
		r.o.Log.Warn("reporting failed, the driver goes on without it", "feature", "node labels", "error", err)
	}
}

// labelledGPU is one GPU of the node.
type labelledGPU struct {
	Model string // "Tesla T4"; see gpuModel
	Works bool   // the driver initialised it
}

// labelsOf returns the labels of a driver of this version ("535.261.03"), flavour and highest CUDA version
// ("12.2") with these GPUs:
//
//	nvidia.com/driver.version.full, .major, .minor, .revision   no label for a part that the version lacks
//	nvidia.com/driver.flavour                                   open or proprietary
//	nvidia.com/driver.cuda.major, .minor                        12 and 2; none if the version is not known
//	nvidia.com/driver.gpu.model                                 Tesla-T4, or mixed
//	nvidia.com/driver.gpu.count, .working                       number of GPUs, and of those that initialised
//	nvidia.com/driver.gpu.count.MODEL                           of each model, if they are mixed
//	nvidia.com/driver.gpu.lent                                  others: GPUs of other drivers, if there are any
//
// Without any GPU there are no labels about GPUs, because the GPUs are not known.
func labelsOf(version, flavour, cuda string, gpus []labelledGPU, others int) map[string]string {
	labels := map[string]string{}
	set := func(name, value string) {
		if value = labelValue(value); value != "" {
			labels[labelPrefix+name] = value
		}
	}
	set("version.full", version)
	for i, part := range strings.SplitN(version, ".", 3) {
		set("version."+[]string{"major", "minor", "revision"}[i], part)
	}
	if major, minor, ok := strings.Cut(cuda, "."); ok {
		set("cuda.major", major)
		set("cuda.minor", minor)
	}
	set("flavour", flavour)
	if len(gpus)+others == 0 {
		return labels
	}
	if others > 0 {
		set("gpu.lent", strconv.Itoa(others))
	}
	models, working := map[string]int{}, 0
	for _, g := range gpus {
		models[labelValue(g.Model)]++
		if g.Works {
			working++
		}
	}
	set("gpu.count", strconv.Itoa(len(gpus)))
	set("gpu.working", strconv.Itoa(working))
	if len(models) == 1 {
		set("gpu.model", gpus[0].Model)
	}
	if len(models) > 1 {
		set("gpu.model", "mixed")
		for model, n := range models {
			if model != "" {
				set(trim(cut("gpu.count."+model, maxName-len("driver."))), strconv.Itoa(n))
			}
		}
	}
	return labels
}

// maxName is the maximum length of a label's value, and of its name after the prefix.
const maxName = 63

// labelValue converts a text to a label's value: letters, digits, -, _ and . with a letter or digit at both
// ends, at most 63 characters. A sequence of other characters becomes one -.
func labelValue(text string) string {
	var b strings.Builder
	dash := false
	for _, r := range text {
		if r > 0x7f || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.", r) {
			dash = true
			continue
		}
		if dash && b.Len() > 0 {
			b.WriteByte('-')
		}
		dash = false
		b.WriteRune(r)
	}
	return trim(cut(trim(b.String()), maxName))
}

func cut(s string, most int) string { return s[:min(len(s), most)] }
func trim(s string) string          { return strings.Trim(s, "-_.") }
