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

// loader is the loader of its own C library, relative to the root.
const loader = "lib64/ld-linux-x86-64.so.2"

// CommandLine returns the command line of a machine as a process of its own, which goes on until
// the machine turns itself off. args are QEMU's arguments, the program first. env has the variables
// beyond the usual ones. Libraries, modules and firmware come from QEMU's own folder: this
// machine's may be of another version.
func (e Emulator) CommandLine(m Machine) (args, env []string) {
	return e.commandLine(m.arguments())
}

func (e Emulator) commandLine(arguments []string) (args, env []string) {
	libraries := filepath.Join(e.Root, "usr/lib/x86_64-linux-gnu")
	args = []string{
		filepath.Join(e.Root, loader), "--library-path", libraries, filepath.Join(e.Root, "usr/bin/qemu-system-x86_64"),
		"-L", filepath.Join(e.Root, "usr/share/qemu"), "-L", filepath.Join(e.Root, "usr/share/seabios"),
	}
	return append(args, arguments...), []string{"QEMU_MODULE_DIR=" + filepath.Join(libraries, "qemu")}
}

// command runs QEMU.
func (e Emulator) command(ctx context.Context, arguments []string) *exec.Cmd {
	args, env := e.commandLine(arguments)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}
