// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// read returns a file of the tree as YAML into a value.
func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// target is a line of the Makefile that begins a target.
var target = regexp.MustCompile(`(?m)^([a-z0-9-]+):(?:[^=]|$)`)

func targets(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range target.FindAllStringSubmatch(string(text), -1) {
		names = append(names, match[1])
	}
	return names
}

// call is a command of a forge: make with one target, as root or not.
var call = regexp.MustCompile(`^(?:sudo --preserve-env=PATH )?make ([a-z0-9-]+)$`)

// TestForges_Commands_OnlyMakeTargets finds commands in the definitions that a person can't repeat
// by make on another machine.
func TestForges_Commands_OnlyMakeTargets(t *testing.T) {
	known := targets(t)
	commands := append(ofGitHub(t), ofGitLab(t)...)
	for _, want := range []string{"make lint", "make test-fast", "make licenses"} {
		if !slices.Contains(commands, want) {
			t.Errorf("no forge calls %s", want)
		}
	}
	for _, command := range commands {
		match := call.FindStringSubmatch(command)
		if match == nil || !slices.Contains(known, match[1]) {
			t.Errorf("a forge calls %q, which is no target of the Makefile", command)
		}
	}
}

func ofGitHub(t *testing.T) (commands []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, file := range files {
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct{ Run, Uses string }
			}
		}
		read(t, ".github/workflows/"+filepath.Base(file), &workflow)
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Uses == "" {
					commands = append(commands, step.Run)
				}
			}
		}
	}
	return commands
}

func ofGitLab(t *testing.T) (commands []string) {
	t.Helper()
	var jobs map[string]any
	read(t, ".gitlab-ci.yml", &jobs)
	return ofJobs(jobs)
}

// ofJobs returns the commands of a definition of GitLab. Keys beside the jobs apply to all of them.
func ofJobs(jobs map[string]any) (commands []string) {
	commands = ofJob(jobs)
	for _, job := range jobs {
		commands = append(commands, ofJob(job)...)
	}
	return commands
}

// ofJob returns the commands of a job of GitLab.
func ofJob(job any) (commands []string) {
	settings, _ := job.(map[string]any)
	for _, key := range []string{"before_script", "script", "after_script"} {
		commands = append(commands, texts(settings[key])...)
	}
	return commands
}

// texts returns the texts of a value: GitLab takes one text, and a list of texts and lists. A value
// of another type gives a text that can't be a command.
func texts(value any) (all []string) {
	switch value := value.(type) {
	case nil:
	case []any:
		for _, one := range value {
			all = append(all, texts(one)...)
		}
	default:
		all = append(all, fmt.Sprint(value))
	}
	return all
}

func TestCommands_Job_AllRead(t *testing.T) {
	var jobs map[string]any
	const text = `
before_script: one
job: {before_script: [two], script: three, after_script: [[four], five: 5]}
default: {before_script: six}
`
	if err := yaml.Unmarshal([]byte(text), &jobs); err != nil {
		t.Fatal(err)
	}
	got := ofJobs(jobs)
	slices.Sort(got)
	if want := []string{"four", "map[five:5]", "one", "six", "three", "two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDependabot_EachModule_Listed compares the folders of the tree with the folders that updates
// of dependencies look at.
func TestDependabot_EachModule_Listed(t *testing.T) {
	var settings struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directories []string
		}
	}
	read(t, ".github/dependabot.yml", &settings)
	var listed []string
	for _, update := range settings.Updates {
		if update.Ecosystem == "gomod" {
			listed = append(listed, update.Directories...)
		}
	}
	slices.Sort(listed)
	if modules := modules(t); !slices.Equal(modules, listed) {
		t.Errorf(".github/dependabot.yml lists the modules in %v, the tree has %v", listed, modules)
	}
}

// modules returns the folders with a go.mod.
func modules(t *testing.T) (found []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && file != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if entry.Name() == "go.mod" {
			found = append(found, path.Join("/", path.Dir(file)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// TestIssueForms_Each_Complete: forges ignore a form without these parts.
func TestIssueForms_Each_Complete(t *testing.T) {
	for _, name := range []string{"bug", "feature"} {
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label string }
			}
		}
		read(t, ".github/ISSUE_TEMPLATE/"+name+".yml", &form)
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s.yml lacks a name, a description or a body: %+v", name, form)
		}
		for _, part := range form.Body {
			if part.Type == "" || part.ID == "" || part.Attributes.Label == "" {
				t.Errorf("%s.yml has an incomplete part: %+v", name, part)
			}
		}
	}
}
