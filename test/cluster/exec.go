// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/alioth-net/alioth/test/cluster/process"
)

// Command prepares a command that runs on a node: in its network, mount and
// host name namespaces, with the node's view of the file system. Call start to
// run it; wait and kill it through cmd as usual. An empty node is the host.
func (c *Cluster) Command(ctx context.Context, nodeName string, args ...string) (cmd *exec.Cmd, start func() error, err error) {
	space := process.Space{}
	if nodeName != "" {
		if space, _, err = c.space(nodeName); err != nil {
			return nil, nil, err
		}
	}
	cmd, start = inSpace(ctx, space, args)
	return cmd, start, nil
}

// inSpace prepares a command in other namespaces.
func inSpace(ctx context.Context, space process.Space, args []string) (cmd *exec.Cmd, start func() error) {
	cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	return cmd, func() error {
		return process.OnThread(func() error {
			if space != (process.Space{}) {
				if err := space.Enter(); err != nil {
					return err
				}
			}
			return cmd.Start()
		})
	}
}

// NodeExec runs a command on a node and returns its standard output. The error holds its standard
// error.
func (c *Cluster) NodeExec(ctx context.Context, nodeName string, args ...string) (string, error) {
	if c.isGuest(nodeName) {
		return c.runOnGuest(ctx, nodeName, args)
	}
	space, _, err := c.space(nodeName)
	if err != nil {
		return "", err
	}
	return runIn(ctx, nodeName, space, args)
}

func runIn(ctx context.Context, where string, space process.Space, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd, start := inSpace(ctx, space, args)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := start()
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("run %q on %s: %w: %s", strings.Join(args, " "), where, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// OnHost returns the path on this host of a node's file, ErrNotUp when the node is not
// running.
func (c *Cluster) OnHost(nodeName, path string) (string, error) {
	_, holder, err := c.space(nodeName)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/root%s", holder.PID, path), nil
}

// ExecInPod runs a command in a container of a pod and returns its standard output; container "" is
// the pod's first. The error holds its standard error, and is a
// k8s.io/client-go/util/exec.ExitError where the command ran and failed.
func (c *Cluster) ExecInPod(ctx context.Context, namespace, pod, container string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	err := c.StreamInPod(ctx, namespace, pod, container, nil, &stdout, &stderr, args...)
	if err != nil {
		return stdout.String(), fmt.Errorf("run %q in %s/%s: %w: %s", strings.Join(args, " "), namespace, pod, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// StreamInPod is ExecInPod with the caller's own streams; stdin may be nil.
func (c *Cluster) StreamInPod(ctx context.Context, namespace, pod, container string, stdin io.Reader, stdout, stderr io.Writer, args ...string) error {
	request := c.Client().CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: args,
			Stdin: stdin != nil, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.Config(), "GET", request.URL().String())
	if err != nil {
		return fmt.Errorf("prepare an exec: %w", err)
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr})
}

// Helm runs the lab's Helm against the lab and returns its output.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.path("bin", "helm"), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("run helm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Kubectl runs the lab's kubectl against the lab and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.path("bin", "kubectl"), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("run kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
