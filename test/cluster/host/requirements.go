// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host describes the machine under the lab: its requirements, the missing Debian packages,
// the layout of its cgroups, and the folders and kernel settings that the lab has to put back.
package host

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// script has the checks of the machine. make runs it too, before it compiles anything.
//
//go:embed check.sh
var script string

// packageList names in each line a Debian package that the lab or the tests need, and a file
// that shows that it is installed.
//
//go:embed packages.txt
var packageList string

// Check returns an error with one line per requirement of the lab in a folder that this machine
// does not meet; each line contains the remedy.
func Check(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", script, "check.sh", "machine")
	cmd.Env = append(os.Environ(), "PACKAGES="+strings.TrimSpace(packageList), "LAB_DIR="+dir)
	out, err := cmd.CombinedOutput()
	if _, unmet := errors.AsType[*exec.ExitError](err); unmet {
		return errors.New(strings.TrimSpace(string(out)))
	}
	if err != nil {
		return fmt.Errorf("check this machine: %w", err)
	}
	return nil
}

// compilers maps the Debian packages for regenerating BPF objects and formatting their source to
// a file that shows that each is installed.
func compilers() map[string]string {
	return map[string]string{
		"clang-19":        "/usr/bin/clang-19",
		"clang-format-19": "/usr/bin/clang-format-19",
		"git":             "/usr/bin/git",
		"llvm-19":         "/usr/bin/llvm-strip-19",
	}
}

// packages is the same for the needs of the lab and the tests.
func packages() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(packageList) {
		if fields := strings.Fields(line); len(fields) == 2 {
			all[fields[0]] = fields[1]
		}
	}
	return all
}

// MissingPackages returns the Debian packages that the lab needs and that this
// machine lacks.
func MissingPackages() []string { return missingOf(packages()) }

// MissingCompilers returns the packages of compilers that this machine lacks. A build needs none
// of them.
func MissingCompilers() []string { return missingOf(compilers()) }

func missingOf(packages map[string]string) []string {
	var missing []string
	for name, file := range packages {
		if !exists(file) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// InstallPackages installs Debian packages through apt and hands each line of
// its output to progress.
func InstallPackages(ctx context.Context, names []string, progress func(line string)) error {
	if len(names) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf(
			"no apt-get here: install what these Debian packages hold by other means: %s",
			strings.Join(names, " "),
		)
	}
	progress("installing Debian packages: " + strings.Join(names, " "))
	if err := apt(ctx, "update", "-q"); err != nil {
		return err
	}
	if err := apt(ctx, append([]string{"install", "-y", "-q", "--no-install-recommends"}, names...)...); err != nil {
		return err
	}
	return stopInstalledServices(ctx, names)
}

// stopInstalledServices stops the system's own etcd where installing it has
// started one: the lab runs etcd itself.
func stopInstalledServices(ctx context.Context, installed []string) error {
	if !exists("/run/systemd/system") || !slices.Contains(installed, "etcd-server") {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "systemctl", "disable", "--now", "etcd").CombinedOutput(); err != nil {
		return fmt.Errorf("stop the etcd service that came with its package: %w\n%s", err, out)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run apt-get %s: %w\n%s", args[0], err, out)
	}
	return nil
}
