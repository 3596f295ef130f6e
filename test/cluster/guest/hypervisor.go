// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/vm/debian"
	"github.com/alioth-net/alioth/test/vm/qemu"
)

// release is the Debian release whose kernel machines run: it has ipvlan, VLAN and the
// driver of the adapter with virtual functions.
const release = "trixie"

// Cgroups returns the cgroups of a machine, as its programs see them.
func Cgroups() host.Cgroups { return host.Cgroups{Unified: "/sys/fs/cgroup"} }

// Hypervisor has the parts that machines are made of.
type Hypervisor struct {
	kernel   debian.Kernel
	emulator qemu.Emulator
	programs Programs
}

// Prepare fetches the kernel and QEMU, and builds the first program of machines into
// dir. root is the project's root folder; files are programs of the host that machines
// have at the same places.
func Prepare(ctx context.Context, cache build.Cache, root, dir string, files []string) (*Hypervisor, error) {
	h := &Hypervisor{programs: Programs{Init: filepath.Join(dir, "init"), Files: map[string]string{}}}
	for _, file := range files {
		h.programs.Files[file] = file
	}
	var err error
	if h.kernel, err = debian.Fetch(ctx, cache, release); err != nil {
		return nil, err
	}
	if h.emulator, err = qemu.Fetch(ctx, cache); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of virtual machines: %w", err)
	}
	return h, build.Go(ctx, root, "the first program of virtual machines", cache.Progress,
		"-trimpath", "-ldflags=-s -w", "-o", h.programs.Init, "./test/cluster/guest/init")
}

// CommandLine writes the file system of the machine of a plan to image, and returns the command
// line of the machine. args are QEMU's arguments, the program first. env has the variables beyond
// the usual ones. The kernel's messages go to the file console.
func (h *Hypervisor) CommandLine(
	ctx context.Context,
	plan Plan,
	image, console string,
) (args, env []string, err error) {
	if err := WriteImage(ctx, image, h.kernel, plan, h.programs); err != nil {
		return nil, nil, err
	}
	args, env = h.emulator.CommandLine(Machine(plan, h.kernel.Image, image, console))
	return args, env, nil
}
