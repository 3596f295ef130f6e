// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/vm/debian"
)

// Emulator is an unpacked QEMU with all that it needs.
type Emulator struct {
	// Root is the folder with its /usr.
	Root string
}

// Fetch returns the QEMU of Debian 13. Network adapters with virtual functions (igb) need
// QEMU 8 or later, which Debian 12 lacks. One version on all machines also makes their
// results comparable.
func Fetch(ctx context.Context, cache build.Cache) (Emulator, error) {
	root, err := debian.FetchPrograms(ctx, cache, "trixie", "qemu-system-x86")
	return Emulator{Root: root}, err
}

// loader is the one of its own C library, relative to the root.
const loader = "lib64/ld-linux-x86-64.so.2"

// command runs QEMU. Its libraries, modules and firmware are those of its own folder:
// this machine's may be of another version.
func (e Emulator) command(ctx context.Context, args []string) *exec.Cmd {
	libraries := filepath.Join(e.Root, "usr/lib/x86_64-linux-gnu")
	start := []string{
		"--library-path", libraries, filepath.Join(e.Root, "usr/bin/qemu-system-x86_64"),
		"-L", filepath.Join(e.Root, "usr/share/qemu"), "-L", filepath.Join(e.Root, "usr/share/seabios"),
	}
	cmd := exec.CommandContext(ctx, filepath.Join(e.Root, loader), append(start, args...)...)
	cmd.Env = append(os.Environ(), "QEMU_MODULE_DIR="+filepath.Join(libraries, "qemu"))
	return cmd
}
