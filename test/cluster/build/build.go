// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package build compiles the third-party programs of the lab from Go modules
// and keeps them in the user's cache folder, one folder per version.
//
// A folder is named after everything that decides its contents. Builds of one
// program are serialised across processes.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Program is one Go module of the lab and the binaries it yields.
type Program struct {
	// Name is the folder below test/cluster that holds the module.
	Name string
	// Module is the required module whose version names the cache folder.
	Module string
	// Minor is the minor version of Module, for example 1.35; "" is the one of go.mod.
	// Others have files of their own beside it, such as v1.35.mod and v1.35.sum.
	Minor string
	// Packages are the main packages to build; the binary of "." is Name.
	Packages []string
	// Links are further names for the binary called Name.
	Links []string
	// Tags are Go build tags.
	Tags []string
	// VersionVars are string variables that are linked with Module's version.
	VersionVars []string
}

// Kubernetes is every Kubernetes component as one binary with a link each, of a minor version
// such as "1.35"; "" is the one that everything is tested on.
func Kubernetes(minor string) Program {
	return Program{
		Name:     "kubernetes",
		Minor:    minor,
		Module:   "k8s.io/kubernetes",
		Packages: []string{"."},
		Links:    []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"},
		VersionVars: []string{
			"k8s.io/component-base/version.gitVersion",
			"k8s.io/client-go/pkg/version.gitVersion",
		},
	}
}

// Containerd is containerd, its command line client and its runc shim, of a minor version
// such as "1.7"; "" is the one that everything is tested on.
func Containerd(minor string) Program {
	pkg := "github.com/containerd/containerd/v2"
	if strings.HasPrefix(minor, "1.") {
		pkg = path.Dir(pkg)
	}
	return Program{
		Name:        "containerd",
		Module:      pkg,
		Minor:       minor,
		Packages:    []string{pkg + "/cmd/containerd", pkg + "/cmd/ctr", pkg + "/cmd/containerd-shim-runc-v2"},
		Tags:        []string{"no_btrfs", "no_devmapper", "no_zfs"},
		VersionVars: []string{pkg + "/version.Version"},
	}
}

// CoreDNS is the cluster's DNS server.
func CoreDNS() Program {
	return Program{Name: "coredns", Module: "github.com/coredns/coredns", Packages: []string{"."}}
}

// KubeProxy is what Kubernetes has for Services. The lab runs without it; benches build
// it to compare with, and tests run it beside Alioth.
func KubeProxy() Program {
	return Program{Name: "kube-proxy", Module: "k8s.io/kubernetes", Packages: []string{"k8s.io/kubernetes/cmd/kube-proxy"}}
}

// Flannel is the daemon of another network. Tests run it beside Alioth.
func Flannel() Program {
	return Program{Name: "flannel", Module: "github.com/flannel-io/flannel", Packages: []string{"."}}
}

// Etcd is the etcd that Kubernetes is released with, for API servers with many objects. The
// lab runs Debian's.
func Etcd() Program {
	return Program{Name: "etcd", Module: "go.etcd.io/etcd/server/v3", Packages: []string{"."}}
}

// Helm is the Helm command line client.
func Helm() Program {
	return Program{
		Name:        "helm",
		Module:      "helm.sh/helm/v4",
		Packages:    []string{"helm.sh/helm/v4/cmd/helm"},
		VersionVars: []string{"helm.sh/helm/v4/internal/version.version"},
	}
}

// SBOM is the program that lists the modules of a binary for releases.
func SBOM() Program {
	const pkg = "github.com/CycloneDX/cyclonedx-gomod"
	return Program{Name: "cyclonedx", Module: pkg, Packages: []string{pkg + "/cmd/cyclonedx-gomod"}}
}

// Programs lists everything that the lab builds from modules of its own.
func Programs() []Program {
	return []Program{Kubernetes(""), Containerd(""), CoreDNS(), Helm()}
}

// Builder builds programs of one work tree.
type Builder struct {
	// Root is the project's root folder.
	Root string
	// Cache is the folder that holds one folder per program and version.
	Cache string
	// Progress receives one line per step; nil discards them.
	Progress func(line string)
	// Estimate counts what is built; it may be nil.
	Estimate *Estimate
}

// Missing returns the names of the programs that are still to be built.
func (b *Builder) Missing(programs ...Program) ([]string, error) {
	var names []string
	for _, p := range programs {
		folder, err := b.folder(p)
		if err != nil {
			return nil, err
		}
		if !exists(filepath.Join(b.Cache, folder)) {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// folder returns the name of the folder of a program in the cache.
func (b *Builder) folder(p Program) (string, error) {
	pins, err := b.pins(p)
	if err != nil {
		return "", err
	}
	key, err := b.key(p, pins)
	return fmt.Sprintf("%s-%s-%s", p.Name, pins.version, key), err
}

// Ensure returns the folder with p's binaries and builds it when it is missing.
func (b *Builder) Ensure(ctx context.Context, p Program) (string, error) {
	pins, err := b.pins(p)
	if err != nil {
		return "", err
	}
	folder, err := b.folder(p)
	if err != nil {
		return "", err
	}
	cache := Cache{Dir: b.Cache, Progress: b.Progress}
	dir, err := cache.Ensure(p.Name, folder, func(dir string) error {
		return b.buildInto(ctx, p, pins, dir)
	})
	if err != nil {
		return "", fmt.Errorf("build %s %s: %w", p.Name, pins.version, err)
	}
	return dir, nil
}

func (b *Builder) buildInto(ctx context.Context, p Program, pins pins, dir string) error {
	args := []string{"-trimpath", "-mod=readonly", "-modfile=" + pins.modFile}
	if len(p.Tags) > 0 {
		args = append(args, "-tags", strings.Join(p.Tags, ","))
	}
	args = append(args, "-ldflags", ldflags(p, pins.version), "-o", dir+"/")
	title, began := p.Name+" "+pins.version, time.Now()
	b.progress("building " + title)
	job := Job{Dir: b.moduleDir(p), Title: title, Progress: b.progress, Share: p.Name, Estimate: b.Estimate}
	if err := job.Build(ctx, append(args, p.Packages...)...); err != nil {
		return err
	}
	b.progress(fmt.Sprintf("built %s in %.0f s", title, time.Since(began).Seconds()))
	for _, link := range p.Links {
		if err := os.Symlink(p.Name, filepath.Join(dir, link)); err != nil {
			return fmt.Errorf("link %s: %w", link, err)
		}
	}
	return nil
}

// key returns a short hash of every input of the build.
func (b *Builder) key(p Program, pins pins) (string, error) {
	dir := b.moduleDir(p)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", fmt.Errorf("list the sources of %s: %w", p.Name, err)
	}
	slices.Sort(files)
	files = append(files, filepath.Join(dir, pins.modFile), filepath.Join(dir, pins.sumFile()))
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, p.Packages, p.Links, p.Tags, p.VersionVars)
	for _, file := range files {
		if err := hashFile(h, file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func (b *Builder) moduleDir(p Program) string {
	return filepath.Join(b.Root, "test", "cluster", p.Name)
}

func (b *Builder) progress(line string) {
	if b.Progress != nil {
		b.Progress(line)
	}
}

func ldflags(p Program, version string) string {
	flags := []string{"-s", "-w"}
	for _, name := range p.VersionVars {
		flags = append(flags, "-X", name+"="+version)
	}
	return strings.Join(flags, " ")
}

func hashFile(w io.Writer, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("hash a build input: %w", err)
	}
	fmt.Fprintln(w, filepath.Base(file), len(raw))
	_, err = w.Write(raw)
	return err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Binaries returns the names of the files in the folder that Ensure returns.
func (p Program) Binaries() []string {
	names := slices.Clone(p.Links)
	for _, pkg := range p.Packages {
		if pkg == "." {
			names = append(names, p.Name)
		} else {
			names = append(names, path.Base(pkg))
		}
	}
	return names
}
