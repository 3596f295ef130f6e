// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMachineArguments_Devices_NothingElse(t *testing.T) {
	args := Machine{
		Kernel: "k", Initramfs: "i", Console: "c", CPUs: 2, Memory: 512,
		Devices: []string{"pcie-root-port,id=p", "igb,bus=p"}, Shares: []Share{{Tag: "t", Dir: "/a,b"}},
	}.arguments()
	line := strings.Join(args, " ")
	for _, want := range []string{
		"-nodefaults", "-no-user-config", "-kernel k -initrd i", "-smp 2 -m 512", "-serial file:c",
		"-device pcie-root-port,id=p -device igb,bus=p", "-virtfs local,path=/a,,b,mount_tag=t,",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	if slices.Contains(args, "-netdev") {
		t.Errorf("the machine has a network: %s", line)
	}
}

func TestMachineArguments_Networks_BeforeDevices(t *testing.T) {
	args := Machine{Networks: []string{"hubport,id=n,hubid=0"}, Devices: []string{"igb,netdev=n"}, KernelArguments: []string{"iommu=pt"}}.arguments()
	network, device := slices.Index(args, "hubport,id=n,hubid=0"), slices.Index(args, "igb,netdev=n")
	if network < 1 || args[network-1] != "-netdev" || device < network || args[device-1] != "-device" {
		t.Errorf("arguments are %v", args)
	}
	if i := slices.Index(args, "-append"); !strings.HasSuffix(args[i+1], " iommu=pt") || !strings.HasPrefix(args[i+1], commandLine) {
		t.Errorf("the kernel's arguments are %q", args[i+1])
	}
}

func TestMachine_CannotStart_CauseTold(t *testing.T) {
	root := t.TempDir()
	fakeEmulator(t, root, "echo \"no such file: $*\" >&2; exit 1")
	dir := t.TempDir()
	m := Machine{
		Kernel: filepath.Join(dir, "no-kernel"), Initramfs: filepath.Join(dir, "no-initramfs"),
		Console: filepath.Join(dir, "console"), CPUs: 1, Memory: 64,
	}
	if err := os.WriteFile(m.Console, []byte("last words"), 0o600); err != nil {
		t.Fatal(err)
	}
	early := errors.New("ended early")
	err := Run(t.Context(), Emulator{Root: root}, m, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return errors.Join(err, early)
	})
	if !errors.Is(err, early) || !strings.Contains(err.Error(), "no-kernel") {
		t.Errorf("got %v, want what QEMU says about the missing kernel", err)
	}
}

// fakeEmulator puts a loader into root that runs a script instead of QEMU.
func fakeEmulator(t *testing.T, root, script string) {
	t.Helper()
	file := filepath.Join(root, loader)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestEmulator_Root_OwnLibrariesAndFirmware(t *testing.T) {
	root := t.TempDir()
	fakeEmulator(t, root, `echo "$* | $QEMU_MODULE_DIR"`)
	out, err := Emulator{Root: root}.command(t.Context(), []string{"-x"}).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"--library-path " + root + "/usr/lib/x86_64-linux-gnu ", root + "/usr/bin/qemu-system-x86_64 ",
		"-L " + root + "/usr/share/qemu ", "-L " + root + "/usr/share/seabios ", " -x |",
		"| " + root + "/usr/lib/x86_64-linux-gnu/qemu",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

func TestTail_LongText_EndKept(t *testing.T) {
	var end tail
	for range 100 {
		if _, err := end.Write([]byte(strings.Repeat("x", 100))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := end.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	if len(end) != tailSize || !strings.HasSuffix(string(end), "xthe end") {
		t.Errorf("kept %d bytes: %s", len(end), end)
	}
}
