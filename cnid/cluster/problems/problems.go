// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package problems checks a node for problems that a person has to solve: packet filters
// of other programs, another CNI configuration, MTUs that do not fit, features that the
// kernel lacks. It changes nothing.
package problems

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
)

// Config has the settings and functions of a Checker. All fields are required.
type Config struct {
	// CNIConfDir is the container runtime's directory of CNI configurations.
	CNIConfDir string
	Node       Node
	// Journal has the node's attachments.
	Journal journal.Reader
	// ProxyHealth has the health pages for external load balancers, NodeIPAM the TCP port of the
	// node IPAM API.
	ProxyHealth, NodeIPAM Service
	// Lacking finds the features that pods and networks of the node need and the kernel lacks.
	Lacking  *Lacking
	Reporter Reporter
	Log      *slog.Logger
}

// Node has the state of the node that problems follow from.
type Node interface {
	// ServesOtherCNI reports whether another CNI plugin is meant to have the node's pods.
	ServesOtherCNI() bool
	// ExplainLeftOut returns the objects of the API that the node should program and does not,
	// each as a sentence with the remedy.
	ExplainLeftOut() []string
}

// Service is a service of the daemon.
type Service interface {
	// Problem returns the problem of the service, or "".
	Problem() string
}

// Reporter hears of problems.
type Reporter interface {
	// Problems is called with all problems that there are now, the gravest first.
	Problems(list []finding.Problem)
}

// Checker makes problem checks beside the passes that request them: other programs may
// have tens of thousands of rules.
type Checker struct {
	cfg Config
	// requests has at most one element: the newest request.
	requests chan request

	mu       sync.Mutex
	warnings []string
}

// request has the inputs of a problem check.
type request struct {
	// failure says why the node can't be programmed, or is nil.
	failure error
	traffic foreign.Traffic
	// mtu is the MTU for pods on the node's network, in bytes.
	mtu int
}

// New returns a Checker that has checked nothing.
func New(cfg Config) *Checker { return &Checker{cfg: cfg, requests: make(chan request, 1)} }

// Check requests a problem check, in place of a request that waits. It does not block, and is not
// called concurrently. failure says why the node can't be programmed, or is nil. traffic is the
// traffic that the host must let through. mtu is the MTU for pods on the node's network, in
// bytes.
func (c *Checker) Check(failure error, traffic foreign.Traffic, mtu int) {
	select {
	case <-c.requests:
	default:
	}
	c.requests <- request{failure: failure, traffic: traffic, mtu: mtu}
}

// Run makes the checks that are requested, until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-c.requests:
			c.cfg.Reporter.Problems(c.check(ctx, r))
		}
	}
}

// Warnings returns the problems that the last check found beside the failure of a pass,
// as sentences.
func (c *Checker) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.warnings
}

// check looks for all problems that need an administrator.
func (c *Checker) check(ctx context.Context, r request) []finding.Problem {
	list := slices.Concat(
		leftOut(c.cfg.Node.ExplainLeftOut()),
		c.blocked(ctx, r.traffic),
		c.otherCNI(),
		unserved(c.cfg.ProxyHealth.Problem(), v1alpha1.ProxyHealthUnservedReason),
		unserved(
			c.cfg.NodeIPAM.Problem(),
			v1alpha1.NodeIPAMPortUnservedReason,
		),
		c.lacking(ctx),
		mtuProblems(c.cfg.Journal.Records(), r.mtu),
	)
	var warnings []string
	for _, p := range list {
		warnings = append(warnings, p.Message)
	}
	// Unread tables may be empty, so they do not make the node unhealthy.
	warnings = append(warnings, foreign.Unread()...)
	c.mu.Lock()
	c.warnings = warnings
	c.mu.Unlock()
	if r.failure != nil {
		list = slices.Insert(list, 0, finding.Problem{Reason: v1alpha1.NotProgrammedReason, Message: r.failure.Error()})
	}
	return list
}

// mostNamed is the limit of left-out objects that a message names. longestNames bounds their part
// of the message in bytes: users choose the names and values in it.
const (
	mostNamed    = 5
	longestNames = 1500
)

// leftOut returns one problem for all objects that are left out.
func leftOut(sentences []string) []finding.Problem {
	if len(sentences) == 0 {
		return nil
	}
	named := sentences[:min(len(sentences), mostNamed)]
	return []finding.Problem{{
		Reason:  v1alpha1.ObjectsLeftOutReason,
		Message: quote.Bounded(strings.Join(named, "; "), longestNames) + finding.AndMore(len(sentences)-len(named)),
	}}
}

// blocked returns rules of other programs that drop traffic that the host must let through.
func (c *Checker) blocked(ctx context.Context, traffic foreign.Traffic) (list []finding.Problem) {
	blocks, err := foreign.Blocks(ctx, traffic)
	if err != nil {
		c.cfg.Log.Warn("can't read other programs' packet filters", "error", err)
	}
	for _, b := range blocks {
		list = append(list, finding.Problem{Reason: v1alpha1.TrafficBlockedReason, Message: b.String()})
	}
	return list
}

// otherCNI returns a CNI configuration that the container runtime uses in place of Alioth's.
func (c *Checker) otherCNI() []finding.Problem {
	if c.cfg.Node.ServesOtherCNI() {
		return nil
	}
	other, err := install.ConfigurationBefore(c.cfg.CNIConfDir)
	if err != nil {
		c.cfg.Log.Warn("can't look for other CNI configurations", "error", err)
	}
	if other == "" {
		return nil
	}
	return []finding.Problem{{Reason: v1alpha1.OtherCNIConfigurationReason, Message: fmt.Sprintf(
		"%s in the node's directory of CNI configurations comes before %s, so the container runtime uses that for new pods; remove it",
		other,
		cnidir.ConflistName,
	)}}
}

// lacking returns features of the kernel without which some pods can't be attached. Others can,
// so STATUS does not fail.
func (c *Checker) lacking(ctx context.Context) (list []finding.Problem) {
	for _, message := range c.cfg.Lacking.Find(ctx) {
		list = append(list, finding.Problem{Reason: v1alpha1.KernelUnsupportedReason, Message: message})
	}
	return list
}

// unserved returns the problem of a server, which is "" if it serves.
func unserved(problem, reason string) []finding.Problem {
	if problem == "" {
		return nil
	}
	return []finding.Problem{{Reason: reason, Message: problem}}
}
