// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command vm runs the tests that depend on the kernel in virtual machines with
// other kernels than this machine's. Run it from the project's root folder.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/soak/marked"
	"github.com/alioth-net/alioth/test/vm"
	"github.com/alioth-net/alioth/test/vm/debian"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer cancel()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		cancel()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	began := time.Now()
	options := vm.Options{
		Root: ".", Out: os.Stdout,
		Progress: func(line string) { fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), line) },
	}
	var kernels []string
	var soaked bool
	cmd := &cobra.Command{
		Use:   "vm [PACKAGE...]",
		Short: "Run tests in virtual machines with other kernels than this one",
		Long: "Runs Go tests in virtual machines with Debian's kernels, which it fetches, as QEMU, through apt.\n" +
			"Without arguments these are the packages that depend on the kernel.",
		Example:       "  go run ./test/vm/cmd/vm --kernels 6.1 --run TestFilters ./ebpf/datapath",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, packages []string) error {
			if feature := missing(); feature != "" {
				fmt.Fprintln(options.Out, "skipped: missing feature:", feature)
				return nil
			}
			var err error
			if options.Kernels, err = selectKernels(kernels); err != nil {
				return err
			}
			if soaked {
				if packages, options.Pattern, err = soakedTests(os.DirFS(options.Root)); err != nil {
					return err
				}
			}
			options.Packages = selectPackages(packages)
			return run(cmd.Context(), options)
		},
	}
	cmd.Flags().StringSliceVar(&kernels, "kernels", nil, "kernels to run on (default: all)")
	cmd.Flags().StringVar(&options.Pattern, "run", "", "run only tests whose names match, as in go test")
	cmd.Flags().BoolVar(&options.Everything, "everything", false, "run also what make test leaves out on some kernels")
	cmd.Flags().
		BoolVar(&soaked, "soaked", false, "run the tests that make soak makes longer, of packages that other machines may lack something for")
	cmd.MarkFlagsMutuallyExclusive("soaked", "run")
	cmd.Flags().
		BoolVar(&options.Events, "json", false, "add an event for each test to the reports, as go test -json prints them")
	cmd.Flags().IntVar(&options.CPUs, "cpus", 1, "processors of each machine")
	cmd.Flags().StringSliceVar(&options.Modules, "modules", nil, "further kernel modules to load")
	cmd.Flags().
		StringArrayVar(&options.Devices, "device", nil, "further device of each machine, as for QEMU's option of that name")
	return cmd
}

func run(ctx context.Context, options vm.Options) error {
	total, err := vm.Run(ctx, options)
	if errors.Is(err, debian.ErrNoArchive) {
		fmt.Fprintln(options.Out, "skipped: missing feature: Debian's kernels and QEMU:", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(options.Out, "%d passed, %d failed, %d skipped\n", total.Passed, total.Failed, total.Skipped)
	if total.Failed > 0 {
		return errors.New("tests failed")
	}
	return nil
}

// missing names the things that this machine lacks for virtual machines.
func missing() string {
	if runtime.GOARCH != "amd64" {
		return "virtual machines of any architecture but amd64"
	}
	for program, from := range map[string]string{
		"apt-get": "it fetches kernels and QEMU", "dpkg-deb": "it unpacks them", "depmod": "run: make setup",
	} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Sprintf("%s is not installed (%s)", program, from)
		}
	}
	return ""
}

// selectPackages returns the packages at the given paths with all their tests. For an empty list it
// returns the packages that depend on the kernel.
func selectPackages(paths []string) []vm.Package {
	if len(paths) == 0 {
		return vm.Packages()
	}
	var selected []vm.Package
	for _, path := range paths {
		p := vm.Package{Path: path}
		for _, known := range vm.Packages() {
			if known.Path == path {
				p.Files, p.Tools, p.Hardware = known.Files, known.Tools, known.Hardware
			}
		}
		selected = append(selected, p)
	}
	return selected
}

// soakedTests returns the packages of the suite whose marked tests make soak runs in a machine, and
// the pattern of these tests.
func soakedTests(files fs.FS) (paths []string, pattern string, err error) {
	all, err := marked.Find(files)
	if err != nil {
		return nil, "", err
	}
	var with []string
	for _, p := range vm.Packages() {
		if p.Hardware || p.Soaked {
			with = append(with, p.Path)
		}
	}
	tests := marked.Select(all, "", with, nil)
	for _, t := range tests {
		if !slices.Contains(paths, t.Package) {
			paths = append(paths, t.Package)
		}
	}
	return paths, marked.Pattern(tests), nil
}

// selectKernels returns the kernels of the given series, or all kernels for an empty list.
func selectKernels(series []string) ([]vm.Kernel, error) {
	if len(series) == 0 {
		return vm.Kernels(), nil
	}
	var selected []vm.Kernel
	for _, s := range series {
		i := slices.IndexFunc(vm.Kernels(), func(k vm.Kernel) bool { return k.Series == s })
		if i < 0 {
			var known []string
			for _, k := range vm.Kernels() {
				known = append(known, k.Series)
			}
			return nil, fmt.Errorf("no kernel %q: use %s", s, strings.Join(known, ", "))
		}
		selected = append(selected, vm.Kernels()[i])
	}
	return selected, nil
}
