// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/kubernetes"
)

// profileSeconds is how long the API server is profiled.
const profileSeconds = 8

// profileOf begins to profile the API server, and returns a function that waits for the file to be
// written. Without a folder for it, nothing is done.
func (b *Bench) profileOf(ctx context.Context, c *control, name string) (finish func() error) {
	if b.profile == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		api, err := kubernetes.NewForConfig(c.Server.Config())
		if err != nil {
			done <- err
			return
		}
		text, err := api.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").
			Param("seconds", strconv.Itoa(profileSeconds)).DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(b.profile, name+".pprof"), text, 0o600)
		}
		done <- err
	}()
	return func() error {
		if err := <-done; err != nil {
			return fmt.Errorf("profile the API server: %w", err)
		}
		return nil
	}
}
