package vgpu

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// TestCheck: the answers before a start, for machines, images, catalogues and files of a licence.
func TestCheck(t *testing.T) {
	t.Parallel()
	whole, vgpu := space(power), space(power, guestCapability(hostOf("550.144.02", "R550_00")))
	strict := Image{Driver: "550.144.03", Licence: driverinfo.VGPUNVIDIA, Strict: true}
	lax, old, plain := strict, strict, Image{Driver: "550.144.03"}
	lax.Strict, old.Driver = false, "535.154.05"
	oldLax := old
	oldLax.Strict = false
	book := map[string]string{"drivers/" + CatalogueName: catalogue}
	withToken := func(text string) map[string]string {
		return map[string]string{"drivers/" + CatalogueName: catalogue, "drivers/ClientConfigToken/a.tok": text}
	}
	for name, c := range map[string]struct {
		config    []byte
		image     Image
		files     map[string]string
		level     Level
		says, fix string
	}{
		"a whole GPU":                {config: whole, image: plain, says: "no GPU is a vGPU"},
		"a whole GPU, guest driver":  {config: whole, image: strict, says: "no GPU says that it is a vGPU"},
		"a vGPU, driver of whole":    {config: vgpu, image: plain, level: Doubtful, says: "the image has a driver for whole GPUs", fix: "vGPU guest driver"},
		"fits":                       {config: vgpu, image: strict, files: book, says: "guest driver 550.144.03 fits (catalogue of 2025-02-01)"},
		"does not fit":               {config: vgpu, image: old, files: book, level: Fatal, says: "does not work with guest driver 535.154.05", fix: "550.144.03, 535.230.02, 550.90.07"},
		"does not fit, check is off": {config: vgpu, image: oldLax, files: book, level: Doubtful, says: "does not work with", fix: "550.144.03"},
		"no catalogue":               {config: vgpu, image: strict, level: Fatal, says: "is not known, because there is no", fix: "DISABLE_VGPU_VERSION_CHECK=true"},
		"no catalogue, check is off": {config: vgpu, image: lax, says: "is not known"},
		"a broken catalogue":         {config: vgpu, image: strict, files: map[string]string{"drivers/" + CatalogueName: "x: ["}, level: Fatal, says: "not a usable vGPU driver catalogue", fix: "licence portal"},
		"a hostile space":            {config: space(guestCapability([]byte{1, 0})), image: strict, files: book, level: Fatal, says: "malformed configuration space"},
		"an unreadable space":        {image: plain, level: Doubtful, says: "only 0 bytes can be read", fix: "privileged"},
		"a host without a name":      {config: space(guestCapability()), image: lax, files: book, level: Doubtful, says: "does not name its driver"},
		"an expired token":           {config: vgpu, image: strict, files: withToken(until(now.Add(-time.Hour))), level: Doubtful, says: "expired on", fix: "become slow"},
		"a wrong token":              {config: vgpu, image: lax, files: withToken("hush"), level: Fatal, says: "not a client configuration token", fix: "vgpu.licensing.secretName"},
		"a good token":               {config: vgpu, image: strict, files: withToken(until(now.Add(time.Hour))), says: "licence: 1 token(s), until"},
	} {
		sys, gpus := bus(t, c.config)
		got := site(t, c.files).Check(sys, gpus, c.image)
		assert.Equalf(t, c.level, got.Level, "%s: %+v", name, got)
		assert.Containsf(t, got.Text, c.says, "%s", name)
		assert.Containsf(t, got.Fix, c.fix, "%s", name)
		assert.Equalf(t, false, strings.Contains(got.Text, "hush"), "%s: the content of a token", name)
	}
}
