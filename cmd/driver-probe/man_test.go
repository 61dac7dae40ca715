package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/goldentest"
)

// TestManPages makes the page of a release: see goldentest.Man.
func TestManPages(t *testing.T) {
	t.Parallel()
	page := &cobra.Command{
		Use: "driver-probe", Short: "ask NVML about the driver and print the answer as JSON", Run: func(*cobra.Command, []string) {},
		Long: "driver-entrypoint starts it with a deadline. Exit codes: 0 NVML answered, 1 NVML did not answer every call, 2 wrong arguments.",
	}
	page.Flags().Bool(usageFlag[2:], false, "also report the used memory and the utilisation of each GPU")
	goldentest.Man(t, page)
}
