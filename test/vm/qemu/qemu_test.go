// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAMachineHasItsDevicesAndNothingElse(t *testing.T) {
	args := Machine{
		Kernel: "k", Initramfs: "i", Console: "c", CPUs: 2, Memory: 512,
		Devices: []string{"pcie-root-port,id=p", "igb,bus=p"},
	}.arguments()
	line := strings.Join(args, " ")
	for _, want := range []string{
		"-nodefaults", "-no-user-config", "-kernel k -initrd i", "-smp 2 -m 512", "-serial file:c",
		"-device pcie-root-port,id=p -device igb,bus=p",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	if slices.Contains(args, "-netdev") {
		t.Errorf("the machine has a network: %s", line)
	}
}

func TestAMachineThatCannotStartSaysWhy(t *testing.T) {
	if _, err := exec.LookPath(Binary); err != nil {
		t.Skip("missing feature: " + Binary + " is not installed")
	}
	dir := t.TempDir()
	m := Machine{
		Kernel: filepath.Join(dir, "no-kernel"), Initramfs: filepath.Join(dir, "no-initramfs"),
		Console: filepath.Join(dir, "console"), CPUs: 1, Memory: 64,
	}
	if err := os.WriteFile(m.Console, []byte("last words"), 0o600); err != nil {
		t.Fatal(err)
	}
	early := errors.New("ended early")
	err := Run(t.Context(), m, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return errors.Join(err, early)
	})
	if !errors.Is(err, early) || !strings.Contains(err.Error(), "no-kernel") {
		t.Errorf("got %v, want what QEMU says about the missing kernel", err)
	}
}

func TestTheEndOfALongTextIsKept(t *testing.T) {
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
