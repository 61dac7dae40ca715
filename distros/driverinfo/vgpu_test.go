package driverinfo

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestVGPU: a note says whose licence a guest driver needs, in one of few words.
func TestVGPU(t *testing.T) {
	t.Parallel()
	for _, licence := range append(VGPULicences(), "") {
		info := example()
		info.VGPU = licence
		text := require.Value(info.Encode())(t)
		assert.Equalf(t, licence, require.Value(Decode(text))(t).VGPU, "%q", licence)
	}
	info := example()
	info.VGPU = "oracle"
	_, err := info.Encode()
	assert.ErrorContains(t, err, `vgpu "oracle" is not one of nvidia, aws, azure, google`)
}
