// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// lane has the steps that run one after the other.
type lane struct {
	Name  string
	Steps []string
	// After ends the lane in any case, also when the run was interrupted.
	After string
	// Low leaves the processors to lanes that are not.
	Low bool
	// Wait is a step of another lane, which has ended before this lane begins.
	Wait string
}

// parse reads lanes from the arguments of the command line.
func parse(arguments, low []string, after, wait map[string]string) ([]lane, error) {
	var lanes []lane
	for _, argument := range arguments {
		name, steps, ok := strings.Cut(argument, "=")
		if !ok || name == "" || steps == "" {
			return nil, fmt.Errorf("%q: want LANE=TARGET,TARGET", argument)
		}
		lanes = append(lanes, lane{
			Name: name, Steps: strings.Split(steps, ","), After: after[name], Low: slices.Contains(low, name), Wait: wait[name],
		})
	}
	known := func(name string) bool {
		return slices.ContainsFunc(lanes, func(l lane) bool { return l.Name == name })
	}
	for _, name := range low {
		if !known(name) {
			return nil, fmt.Errorf("--low %s: no such lane", name)
		}
	}
	for name := range after {
		if !known(name) {
			return nil, fmt.Errorf("--after %s: no such lane", name)
		}
	}
	for name, step := range wait {
		if !known(name) {
			return nil, fmt.Errorf("--wait %s: no such lane", name)
		}
		if !before(lanes, name, step) {
			return nil, fmt.Errorf("--wait %s=%s: no lane that is named before %s has this step", name, step, name)
		}
	}
	return lanes, nil
}

// before reports whether a lane that is named before another one has a step. Lanes wait for
// such lanes alone, so that they do not wait for each other.
func before(lanes []lane, name, step string) bool {
	at := slices.IndexFunc(lanes, func(l lane) bool { return l.Name == name })
	return slices.ContainsFunc(lanes[:at], func(l lane) bool { return slices.Contains(l.Steps, step) })
}
