package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/goldentest"
)

// TestManPages makes the page of a release: see goldentest.Man.
func TestManPages(t *testing.T) {
	t.Parallel()
	_, flags := newSettings()
	page := &cobra.Command{Use: "driver-evict", Short: "evict the pods that use a GPU when another driver is ready", Run: func(*cobra.Command, []string) {}}
	page.Flags().AddFlagSet(flags)
	goldentest.Man(t, page)
}
