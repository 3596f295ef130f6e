// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/alioth-net/alioth/test/vm/guest"
	"github.com/alioth-net/alioth/test/vm/initramfs"
)

// program is a compiled package of tests.
type program struct {
	// importPath and folder are the package's, file the binary.
	importPath, folder, file string
	// run is the package's pattern, files the files that its tests read, tools the programs that
	// they run.
	run          string
	files, tools []string
	// tests is the number of its tests, and omitted has the tests that the kernel of a series
	// leaves out, where it leaves any out.
	tests   int
	omitted map[string][]string
	// hardware: it runs on machines with hardware only.
	hardware bool
}

// compile builds init and the packages' tests into dir.
func compile(ctx context.Context, root, dir string, packages []Package) ([]program, error) {
	if _, err := goCommand(ctx, root, "build", "-o", filepath.Join(dir, "init"), "./test/vm/guest/init"); err != nil {
		return nil, err
	}
	var programs []program
	for _, pkg := range packages {
		found, err := goCommand(ctx, root, "list", "-f", "{{.ImportPath}}|{{.Dir}}", pkg.Path)
		if err != nil {
			return nil, err
		}
		importPath, folder, _ := strings.Cut(strings.TrimSpace(found), "|")
		p := program{
			importPath: importPath,
			folder:     folder,
			run:        pkg.Run,
			files:      pkg.Files,
			tools:      pkg.Tools,
			hardware:   pkg.Hardware,
		}
		// Two packages may have the same base name.
		p.file = filepath.Join(dir, strings.ReplaceAll(importPath, "/", "_")+".test")
		if _, err := goCommand(ctx, root, "test", "-c", "-ldflags=-s -w", "-o", p.file, importPath); err != nil {
			return nil, err
		}
		if err := p.findOmitted(pkg.Omitted); err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// goCommand runs the go command for static binaries.
func goCommand(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-trimpath")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run go %s: %w\n%s", args[0], err, stderr.String())
	}
	return string(out), nil
}

// choice is one machine's part of the programs.
type choice struct {
	series string
	// hardware: the machine has some.
	hardware bool
	// pattern of tests takes the place of the packages' own, and of their omissions.
	pattern string
	// everything keeps the tests that the packages omit on this kernel.
	everything bool
	// environment are further variables of all tests, KEY=value.
	environment []string
}

// testVariables begins the names of variables that change the work of a test. They are the same in
// the machine as on the host.
const testVariables = "ALIOTH_"

// environmentOf returns the variables that a machine's tests get from the host's.
func environmentOf(host []string) (variables []string) {
	for _, variable := range host {
		if strings.HasPrefix(variable, testVariables) {
			variables = append(variables, variable)
		}
	}
	return variables
}

// plan returns the work of the guest with programs and modules.
func (c choice) plan(programs []program, modules []string) guest.Plan {
	p := guest.Plan{Environment: c.environment}
	for _, module := range modules {
		p.Modules = append(p.Modules, modulePlace(module))
	}
	for _, program := range programs {
		var omitted []string
		if !c.everything && c.pattern == "" {
			omitted = program.omitted[c.series]
		}
		if len(omitted) > 0 && len(omitted) == program.tests || program.hardware && !c.hardware {
			continue
		}
		test := guest.Test{
			Package: program.importPath, Binary: binaryPlace(program), Dir: folderPlace(program),
			Args:  []string{"-test.v=test2json", "-test.timeout=" + packageLimit.String()},
			Limit: packageLimit,
		}
		if run := cmp.Or(c.pattern, program.run); run != "" {
			test.Args = append(test.Args, "-test.run="+run)
		}
		if len(omitted) > 0 {
			test.Args = append(test.Args, "-test.skip=^("+strings.Join(omitted, "|")+")$")
		}
		p.Tests = append(p.Tests, test)
	}
	return p
}

// Where things are in the guest.
func modulePlace(file string) string { return "/modules/" + filepath.Base(file) }
func folderPlace(p program) string   { return "/tests/" + p.importPath }
func binaryPlace(p program) string   { return folderPlace(p) + "/run.test" }
func testdataPlace(p program) string { return folderPlace(p) + "/testdata" }

// writeImage writes the guest's file system.
func writeImage(
	ctx context.Context,
	file, initBinary string,
	plan guest.Plan,
	programs []program,
	modules []string,
) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write the guest's file system: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := initramfs.NewWriter(f)
	if err := w.File("/init", initBinary); err != nil {
		return err
	}
	raw, err := json.Marshal(plan)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if err := w.Bytes(guest.PlanFile, raw); err != nil {
		return err
	}
	for _, module := range modules {
		if err := w.File(modulePlace(module), module); err != nil {
			return err
		}
	}
	for _, p := range programs {
		err := errors.Join(
			w.File(binaryPlace(p), p.file),
			w.Tree(testdataPlace(p), filepath.Join(p.folder, "testdata")),
		)
		if err != nil {
			return err
		}
		for _, file := range p.files {
			if err := w.File(filepath.Join(folderPlace(p), file), filepath.Join(p.folder, file)); err != nil {
				return err
			}
		}
	}
	if err := addTools(ctx, w, programs); err != nil {
		return err
	}
	return w.Close()
}

// addTools adds the programs that tests run, each at the same place as on this machine.
func addTools(ctx context.Context, w *initramfs.Writer, programs []program) error {
	for _, p := range programs {
		for _, tool := range p.tools {
			if err := w.Program(ctx, tool); err != nil {
				return fmt.Errorf("add what tests of %s run: %w", p.importPath, err)
			}
		}
	}
	return nil
}
