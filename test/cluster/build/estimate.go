// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"
)

// share is the cost of a thing to build where the caches are empty.
type share struct {
	// seconds of one processor.
	seconds float64
	// packages are how many Go compiles. Another thing may have compiled some of them.
	packages int
}

// shares has the shares of all parts that a lab builds, by name. Kubernetes was measured on a
// machine of two cores. The other shares follow from the number of their packages that no other
// part compiles. Mostly their ratio counts: an estimate learns how fast a machine is.
func shares() map[string]share {
	return map[string]share{
		"kubernetes": {
			600,
			2454,
		}, "containerd": {150, 620}, "coredns": {35, 141}, "helm": {100, 407}, ProductShare: {60, 200},
	}
}

// ProductShare is the name of the product's own share: its programs, and the programs of the tests.
const ProductShare = "alioth"

const (
	// afterBuilds is how long the rest takes: images, nodes, the start of Kubernetes.
	afterBuilds = 45 * time.Second
	// trust is how long an estimate relies on the recorded speed more than on what it sees.
	trust = 30 * time.Second
)

// Estimate tells how long builds go on. It is safe for concurrent use. A nil Estimate tells
// nothing.
type Estimate struct {
	mu    sync.Mutex
	now   func() time.Time
	began time.Time
	// speed is how many seconds of a processor pass in a second on the recorded machine.
	speed float64
	// done is the part of each thing that is built, 0 to 1.
	done map[string]float64
}

// NewEstimate begins an estimate for things to build, by the names of shares.
func NewEstimate(names ...string) *Estimate {
	return newEstimate(time.Now, runtime.NumCPU(), names...)
}

func newEstimate(now func() time.Time, processors int, names ...string) *Estimate {
	e := &Estimate{now: now, began: now(), speed: float64(processors), done: map[string]float64{}}
	for _, name := range names {
		e.done[name] = 0
	}
	return e
}

// compiled notes how many packages of a thing are compiled.
func (e *Estimate) compiled(name string, packages int) {
	if known := shares()[name]; known.packages > 0 {
		e.set(name, min(0.95, float64(packages)/float64(known.packages)))
	}
}

// Built notes that a thing is complete.
func (e *Estimate) Built(name string) { e.set(name, 1) }

func (e *Estimate) set(name string, part float64) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if before, wanted := e.done[name]; wanted {
		e.done[name] = max(before, part)
	}
}

// left is how long everything takes from now on.
func (e *Estimate) left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	var done, rest float64
	for name, part := range e.done {
		seconds := shares()[name].seconds
		done += seconds * part
		rest += seconds * (1 - part)
	}
	elapsed := e.now().Sub(e.began).Seconds()
	speed := (done + e.speed*trust.Seconds()) / (elapsed + trust.Seconds())
	return time.Duration(rest/speed*float64(time.Second)) + afterBuilds
}

// String tells the rest in words, rounded up: nobody waits longer than they were told.
func (e *Estimate) String() string {
	if e == nil {
		return ""
	}
	left := e.left()
	if left <= 90*time.Second {
		return "about a minute left"
	}
	return fmt.Sprintf("about %.0f min left", math.Ceil(left.Minutes()))
}
