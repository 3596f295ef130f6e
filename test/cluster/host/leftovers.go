// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// kubeletSettings returns the kernel settings that a kubelet changes for the whole
// machine when it starts.
func kubeletSettings() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// Settings reads the kernel settings that running a kubelet changes, keyed by
// their path below /proc/sys.
func Settings() map[string]string {
	values := map[string]string{}
	for _, name := range kubeletSettings() {
		if raw, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			values[name] = strings.TrimSpace(string(raw))
		}
	}
	return values
}

// restoreSettings writes back the values that Settings returned.
func restoreSettings(values map[string]string) error {
	var errs []error
	now := Settings()
	for name, value := range values {
		if now[name] == value {
			continue
		}
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("restore the kernel setting %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// UnmountBelow detaches every mount at or below dir, last made first.
func UnmountBelow(dir string) error {
	mounts, err := Mounts()
	if err != nil {
		return err
	}
	var errs []error
	for i := len(mounts) - 1; i >= 0; i-- {
		point := mounts[i].Point
		if point != dir && !strings.HasPrefix(point, dir+"/") {
			continue
		}
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}
