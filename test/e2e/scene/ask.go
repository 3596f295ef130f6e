// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/alioth-net/alioth/test/testtool/agent"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// Protocols that every reachability check covers.
func Protocols() []string { return []string{"icmp", "tcp", "udp", "http"} }

// Target writes the test tool's target of a protocol at an address, on the
// port that the test image serves it on.
func Target(protocol string, ip netip.Addr) string {
	switch protocol {
	case "icmp":
		return TargetPort(protocol, ip, 0)
	case "http":
		return TargetPort(protocol, ip, report.PortHTTP) + "/echo"
	}
	return TargetPort(protocol, ip, report.PortEcho)
}

// TargetPort writes a target at a certain port; 0 leaves the port off.
func TargetPort(protocol string, ip netip.Addr, port uint16) string {
	host := ip.String()
	if ip.Is6() {
		host = "[" + host + "]"
	}
	if port != 0 {
		host += ":" + strconv.Itoa(int(port))
	}
	return protocol + "://" + host
}

// Targets lists every protocol at every address.
func Targets(protocols []string, ips ...netip.Addr) []string {
	var targets []string
	for _, ip := range ips {
		for _, protocol := range protocols {
			targets = append(targets, Target(protocol, ip))
		}
	}
	return targets
}

// Ask asks targets from inside a pod, all at once, each until it answers or
// the time is over. The results are in the order of the targets.
func (s *Scene) Ask(
	ctx context.Context,
	from *corev1.Pod,
	timeout time.Duration,
	targets ...string,
) ([]report.Probe, error) {
	return s.AskWith(ctx, from, timeout, "", targets...)
}

// AskWith is Ask with the line that TCP and UDP servers get.
func (s *Scene) AskWith(
	ctx context.Context,
	from *corev1.Pod,
	timeout time.Duration,
	line string,
	targets ...string,
) ([]report.Probe, error) {
	return s.AskTimes(ctx, from, 0, timeout, line, targets...)
}

// AskTimes asks each target a number of times, with one attempt each. The results of a target are
// next to each other. With 0 it does the same as AskWith.
func (s *Scene) AskTimes(
	ctx context.Context,
	from *corev1.Pod,
	count int,
	timeout time.Duration,
	line string,
	targets ...string,
) ([]report.Probe, error) {
	if len(targets) == 0 {
		return nil, nil
	}
	command := ToolIn(from, "probe", "--count", strconv.Itoa(count), "--timeout", timeout.String(), "--text", line)
	out, err := s.Exec(ctx, from, append(command, targets...)...)
	if err != nil {
		return nil, err
	}
	return ParseLines[report.Probe](out)
}

// Exec runs a command in a pod and returns its output.
func (s *Scene) Exec(ctx context.Context, pod *corev1.Pod, command ...string) (string, error) {
	out, err := s.byAgent(ctx, pod, command)
	if errors.Is(err, agent.ErrNone) {
		out, err = s.exec.ExecInPod(ctx, pod.Namespace, pod.Name, "", command...)
	}
	if err != nil {
		return out, fmt.Errorf("in %s, run %s: %w", nameOf(pod), abbreviate(command), err)
	}
	return out, nil
}

// byAgent runs a command through the agent in a pod, ErrNone if none is reached.
func (s *Scene) byAgent(ctx context.Context, pod *corev1.Pod, command []string) (string, error) {
	socket, err := s.agentOf(pod)
	if err != nil {
		return "", err
	}
	result, err := agent.Run(ctx, socket, command...)
	if err != nil {
		return "", err
	}
	switch {
	case result.Failure != "":
		err = errors.New(result.Failure)
	case result.Code != 0:
		err = utilexec.CodeExitError{
			Err:  fmt.Errorf("exit code %d: %s", result.Code, strings.TrimSpace(result.Stderr)),
			Code: result.Code,
		}
	}
	return result.Stdout, err
}

func abbreviate(command []string) string {
	const most = 8
	if len(command) > most {
		return strings.Join(command[:most], " ") + " ..."
	}
	return strings.Join(command, " ")
}

// Seen returns the messages that a pod's server got so far, asked from inside the pod.
func (s *Scene) Seen(ctx context.Context, pod *corev1.Pod) ([]report.Seen, error) {
	out, err := s.Exec(ctx, pod, ToolIn(pod, "seen")...)
	if err != nil {
		return nil, err
	}
	return ParseLines[report.Seen](out)
}

// SetHealth sets the answer of a pod's server to health checks.
func (s *Scene) SetHealth(ctx context.Context, pod *corev1.Pod, ok bool) error {
	_, err := s.Exec(ctx, pod, ToolIn(pod, "health", strconv.FormatBool(ok))...)
	return err
}

// ParseLines reads one JSON value per line.
func ParseLines[T any](out string) ([]T, error) {
	var values []T
	scanner := bufio.NewScanner(strings.NewReader(out))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var value T
		if err := json.Unmarshal(scanner.Bytes(), &value); err != nil {
			return nil, fmt.Errorf("read the test tool's output %q: %w", scanner.Text(), err)
		}
		values = append(values, value)
	}
	return values, scanner.Err()
}
