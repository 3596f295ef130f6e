// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package qemu runs a virtual machine from a kernel and an initramfs, without a disk, and with no
// other network than the given one.
package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Machine describes a virtual machine.
type Machine struct {
	// Kernel and Initramfs are files.
	Kernel, Initramfs string
	// Console is the file that gets the kernel's output.
	Console string
	// CPUs, and Memory in MiB.
	CPUs, Memory int
	// Networks are the networks that network devices are connected to, each as QEMU's option
	// -netdev takes it.
	Networks []string
	// Devices are further devices, each as QEMU's option -device takes it.
	Devices []string
	// Shares are folders of the host.
	Shares []Share
	// KernelArguments go behind the arguments that every machine has.
	KernelArguments []string
}

// Share is a folder of the host that the guest may mount by its tag, as a file system of type 9p.
// The guest's root writes there with the rights of the host's root.
type Share struct{ Tag, Dir string }

func (s Share) argument() string {
	// QEMU takes two commas for a comma that is a part of a value.
	dir := strings.ReplaceAll(s.Dir, ",", ",,")
	return "local,path=" + dir + ",mount_tag=" + s.Tag + ",security_model=passthrough,multidevs=remap"
}

// results returns the second serial port, which leads to the emulator's standard output.
func results() []string {
	return []string{"-chardev", "stdio,id=results,signal=off", "-serial", "chardev:results"}
}

// commandLine is the command line of the kernel. A panic restarts the machine, which -no-reboot
// turns into its end. The kernel is not to count ticks of the timer before it trusts it: on a busy
// host they come too late, and it panics. It need not guard itself against other users, nor clear
// memory for them: on a translated processor that takes a tenth of the time.
const commandLine = "console=ttyS0 panic=-1 oops=panic no_timer_check mitigations=off init_on_alloc=0"

// processor has all features that can be translated, except those that guard memory
// or address more of it: each access to memory takes longer with them.
const processor = "max,-la57,-pku,-smap,-smep"

// arguments of the emulator. The code is translated, not run by the processor's
// virtualisation: that is not everywhere to be had, nor sound where it is nested.
func (m Machine) arguments() []string {
	args := []string{
		"-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", processor,
		"-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.Memory),
		"-kernel", m.Kernel, "-initrd", m.Initramfs,
		"-append", strings.Join(append([]string{commandLine}, m.KernelArguments...), " "),
		"-serial", "file:" + m.Console,
	}
	for _, network := range m.Networks {
		args = append(args, "-netdev", network)
	}
	for _, device := range m.Devices {
		args = append(args, "-device", device)
	}
	for _, share := range m.Shares {
		args = append(args, "-virtfs", share.argument())
	}
	return args
}

// Run runs the machine until it turns itself off, and passes on the output of its second serial
// port. A machine that is still on when ctx ends, or when follow returns, is killed; it never
// outlives this process.
func Run(ctx context.Context, e Emulator, m Machine, follow func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := e.command(ctx, append(m.arguments(), results()...))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaints tail
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make a pipe to QEMU: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start QEMU: %w", err)
	}
	read := follow(out)
	cancel()
	// Killed or not, its exit adds nothing when the results are complete.
	exit := cmd.Wait()
	if read == nil {
		return nil
	}
	if len(complaints) > 0 {
		read = fmt.Errorf("%w; QEMU (%w) says: %s", read, exit, complaints)
	}
	return errors.Join(read, consoleTail(m.Console))
}

// consoleTail returns the end of the kernel's messages, as an error.
func consoleTail(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the console: %w", err)
	}
	var end tail
	_, _ = end.Write(raw)
	return fmt.Errorf("the console %s ends with:\n%s", file, end)
}

// tail keeps the end of the text written to it.
type tail []byte

const tailSize = 3000

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-tailSize):]
	return len(p), nil
}
