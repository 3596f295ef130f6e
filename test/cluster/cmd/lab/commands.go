// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/release"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/images"
)

func (l *lab) setupCommand() *cobra.Command {
	var generate bool
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Check this machine and install the Debian packages it lacks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := host.Check(cmd.Context(), l.dir()); err != nil {
				return err
			}
			missing := host.MissingPackages()
			if generate {
				missing = append(missing, host.MissingCompilers()...)
			}
			return host.InstallPackages(cmd.Context(), missing, l.progress)
		},
	}
	cmd.Flags().BoolVar(&generate, "generate", false, "also install what regenerating BPF objects takes")
	return cmd
}

func (l *lab) upCommand() *cobra.Command {
	var nodes int
	var archives, cni, of string
	var versions cluster.Versions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring the lab up, or complete one that is there",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(
				[]cluster.CNI{cluster.CNIAlioth, cluster.CNIBridge, cluster.CNIFlannel, cluster.CNINone},
				cluster.CNI(cni),
			) {
				return fmt.Errorf("--cni %q: use alioth, bridge, flannel or none", cni)
			}
			o := cluster.Options{Topology: underlay.DefaultTopology(nodes), Dir: l.dir()}
			if l.hardware {
				o = cluster.HardwareLab(l.root)
			}
			o.CNI, o.Images, o.Progress, o.Release, o.Versions = cluster.CNI(
				cni,
			), strings.Fields(
				archives,
			), l.progress, of, versions
			if _, err := cluster.Up(cmd.Context(), l.root, o); err != nil {
				return fmt.Errorf("%w\n(logs are in %s/logs; take down what is up with: lab down)", err, o.Dir)
			}
			l.progress(
				fmt.Sprintf("the lab is up: %s/bin/kubectl get pods -A; go run ./test/cluster/cmd/lab exec 1 -- ip addr", o.Dir),
			)
			return nil
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 2, "number of nodes")
	cmd.Flags().StringVar(&archives, "images", "", "further image archives for every node, separated by spaces")
	cmd.Flags().
		StringVar(&versions.Kubernetes, "kubernetes", "", "minor version of Kubernetes, for example 1.35; test/cluster/kubernetes has the pins")
	cmd.Flags().StringVar(&versions.Kubelet, "kubelet", "", "minor version of the kubelets, if it is another one")
	cmd.Flags().
		StringVar(&versions.Containerd, "containerd", "", "minor version of containerd, for example 1.7; test/cluster/containerd has the pins")
	cmd.Flags().
		StringVar(&cni, "cni", string(cluster.CNIAlioth), "what connects pods: alioth, bridge (the reference plugins), flannel or none")
	cmd.Flags().
		StringVar(&of, "of", "", "install Alioth of this commit, with its chart, for example a release of docs/install/releases.yaml")
	return cmd
}

func (l *lab) downCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the lab, however far its start came",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cluster.Down(cmd.Context(), l.root, l.dir(), l.progress); err != nil {
				return err
			}
			if force {
				return cluster.DownForeign(cmd.Context(), l.root, underlay.DefaultTopology(100), l.progress)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also remove, by its names, a lab of another work tree")
	return cmd
}

func (l *lab) buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build [NAME[@MINOR]...]",
		Short: "Build the lab's third-party programs into the user's cache: kubernetes, containerd, coredns, helm; kubernetes@1.35 for another version",
		RunE: func(cmd *cobra.Command, names []string) error {
			builder, err := l.builder()
			if err != nil {
				return err
			}
			programs, err := selectPrograms(names)
			if err != nil {
				return err
			}
			for _, p := range programs {
				if _, err := builder.Ensure(cmd.Context(), p); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (l *lab) pathCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "path BINARY",
		Short: "Print the path of one of the built binaries, for example kubectl or helm; builds it if need be",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			builder, err := l.builder()
			if err != nil {
				return err
			}
			for _, p := range build.Programs() {
				if !slices.Contains(p.Binaries(), args[0]) {
					continue
				}
				dir, err := builder.Ensure(cmd.Context(), p)
				if err != nil {
					return err
				}
				fmt.Println(filepath.Join(dir, args[0]))
				return nil
			}
			return fmt.Errorf("nothing builds a binary called %q", args[0])
		},
	}
}

func (l *lab) imagesCommand() *cobra.Command {
	var of string
	cmd := &cobra.Command{
		Use:   "images [REFERENCE...]",
		Short: "Build the container images as archives; without arguments all that the lab knows",
		RunE: func(cmd *cobra.Command, refs []string) error {
			programs, err := l.builder()
			if err != nil {
				return err
			}
			if of != "" {
				return l.printRelease(cmd.Context(), programs.Cache, of, refs)
			}
			if len(refs) == 0 {
				refs = []string{images.Alioth, images.TestTool, images.Pause, images.CoreDNS, images.BusyBox}
			}
			builder := &images.Builder{
				Root:     l.root,
				Out:      filepath.Join(cluster.DefaultDir(l.root), "images"),
				Progress: l.progress,
			}
			if slices.Contains(refs, images.CoreDNS) {
				dir, err := programs.Ensure(cmd.Context(), build.CoreDNS())
				if err != nil {
					return err
				}
				builder.CoreDNS = filepath.Join(dir, "coredns")
			}
			archives, err := cluster.BuildImages(cmd.Context(), builder, refs...)
			for _, a := range archives {
				fmt.Println(a.Ref, a.Path)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&of, "of", "", "build Alioth's image of this commit, and print its chart too")
	return cmd
}

// printRelease builds image and chart of a commit.
func (l *lab) printRelease(ctx context.Context, cache, commit string, refs []string) error {
	if len(refs) > 0 {
		return fmt.Errorf("--of builds the image of Alioth alone: leave out %s", strings.Join(refs, " "))
	}
	b := release.Builder{Root: l.root, Cache: cache, Progress: l.progress}
	v, err := b.Ensure(ctx, commit)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\nchart %s\n", v.Image.Ref, v.Image.Path, v.Chart)
	return nil
}

func (l *lab) kubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the lab's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := cluster.OpenIn(l.root, l.dir())
			if err != nil {
				return err
			}
			fmt.Println(c.Kubeconfig())
			return nil
		},
	}
}

func (l *lab) execCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARGUMENT...]",
		Short: "Run a command on a node, by its name or its number, also where it is a virtual machine",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := cluster.OpenIn(l.root, l.dir())
			if err != nil {
				return err
			}
			for i, n := range c.Nodes() {
				if args[0] != n.Name && args[0] != strconv.Itoa(i+1) {
					continue
				}
				out, err := c.NodeExec(cmd.Context(), n.Name, args[1:]...)
				fmt.Print(out)
				return err
			}
			return fmt.Errorf("no node %q: use a number from 1 to %d", args[0], len(c.Nodes()))
		},
	}
}

func (l *lab) builder() (*build.Builder, error) {
	root, err := filepath.Abs(l.root)
	if err != nil {
		return nil, fmt.Errorf("find the project's root folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(root, "test", "cluster", "kubernetes", "go.mod")); err != nil {
		return nil, fmt.Errorf("%s is not the project's root folder: run this there, or name it with --root", root)
	}
	l.root = root
	cache, err := build.DefaultCache()
	if err != nil {
		return nil, err
	}
	return &build.Builder{Root: root, Cache: cache, Progress: l.progress}, nil
}

// selectPrograms returns the programs of the given names, all without names.
func selectPrograms(names []string) ([]build.Program, error) {
	if len(names) == 0 {
		return build.Programs(), nil
	}
	var selected []build.Program
	for _, name := range names {
		name, minor, _ := strings.Cut(name, "@")
		switch i := slices.IndexFunc(build.Programs(), func(p build.Program) bool { return p.Name == name }); {
		case i < 0:
			return nil, fmt.Errorf("no program %q: use kubernetes, containerd, coredns or helm", name)
		case name == build.Kubernetes("").Name:
			selected = append(selected, build.Kubernetes(minor))
		case name == build.Containerd("").Name:
			selected = append(selected, build.Containerd(minor))
		default:
			selected = append(selected, build.Programs()[i])
		}
	}
	return selected, nil
}
