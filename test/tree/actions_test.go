// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pinned is an action of somebody else at a commit.
var pinned = regexp.MustCompile(`^[^@]+@[0-9a-f]{40}$`)

// TestWorkflows_ForeignActions_Pinned finds an action that its author can replace by another
// action, and a clone that leaves the token of the job to later programs.
func TestWorkflows_ForeignActions_Pinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, file := range files {
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct {
					Uses string
					With map[string]any
				}
			}
		}
		read(t, ".github/workflows/"+filepath.Base(file), &workflow)
		for name, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s, job %s: %s is not named by its commit", filepath.Base(file), name, step.Uses)
				}
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
					t.Errorf("%s, job %s: persist-credentials of the clone is not false", filepath.Base(file), name)
				}
			}
		}
	}
}
