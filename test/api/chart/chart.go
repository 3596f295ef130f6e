// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/alioth-net/alioth/test/api/refusal"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// Where the tests install the chart, and the user names of the two programs
// there.
const (
	Release      = "alioth"
	Namespace    = "alioth-system"
	OperatorUser = "system:serviceaccount:" + Namespace + ":alioth-operator"
	DaemonUser   = "system:serviceaccount:" + Namespace + ":alioth-cnid"
)

// RequiredValues are arguments that set every value without a default.
func RequiredValues() []string {
	return []string{"--set", "apiServer.host=192.0.2.10", "--set", "serviceCIDRs={10.96.0.0/16,fd96::/112}"}
}

// Helm is the lab's Helm with folders of its own.
type Helm struct {
	binary string
	chart  string
	env    []string
}

// New returns the lab's Helm for a test. root is the project's root folder. config is for
// the API server; nil is for commands that need none.
func New(t testing.TB, root string, config *rest.Config) *Helm {
	t.Helper()
	needs.Kubernetes(t)
	h, err := Open(t.Context(), root, t.TempDir(), config, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Open does the same as New with a folder for Helm's own files, for programs instead of tests. The
// binary is built, and progress reported, when the cache lacks it.
func Open(ctx context.Context, root, home string, config *rest.Config, progress func(line string)) (*Helm, error) {
	cache, err := build.DefaultCache()
	if err != nil {
		return nil, err
	}
	builder := build.Builder{Root: root, Cache: cache, Progress: progress}
	dir, err := builder.Ensure(ctx, build.Helm())
	if err != nil {
		return nil, err
	}
	h := &Helm{binary: filepath.Join(dir, "helm"), chart: filepath.Join(root, "helm", "alioth")}
	if err := readAll(h.chart); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(home, "kubeconfig")
	if config == nil {
		config = &rest.Config{Host: "https://127.0.0.1:1"} // nobody listens there
	}
	if err := WriteKubeconfig(kubeconfig, config); err != nil {
		return nil, err
	}
	// HOME is where its discovery cache goes, which must not outlive a server.
	h.env = append(
		os.Environ(),
		"HOME="+home,
		"KUBECONFIG="+kubeconfig,
		"HELM_CACHE_HOME="+home,
		"HELM_CONFIG_HOME="+home,
		"HELM_DATA_HOME="+home,
	)
	return h, nil
}

// readAll reads the files of a folder. Go keeps the result of a test with the files that the test has
// opened, and Helm opens the chart in a process of its own.
func readAll(dir string) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, err = os.ReadFile(filepath.Join(dir, path))
		return err
	})
}

// WithChart returns a copy that uses the chart in another folder.
func (h *Helm) WithChart(dir string) *Helm {
	other := *h
	other.chart = dir
	return &other
}

// Run runs a command with the chart and returns its output. The word CHART in
// args stands for the chart's folder.
func (h *Helm) Run(ctx context.Context, args ...string) (string, error) {
	for i, arg := range args {
		if arg == "CHART" {
			args[i] = h.chart
		}
	}
	cmd := exec.CommandContext(ctx, h.binary, args...)
	cmd.Env = h.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run helm %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

// Upgrade installs or upgrades the release with RequiredValues and args. An API server
// serves new kinds some time after their CRDs, and renews the list that its policies use
// every 30 s. On a cluster with nodes, `--wait` covers the first; here Upgrade repeats the
// command for up to a minute, on a slow machine longer. No node runs the Job that checks upgrades.
func (h *Helm) Upgrade(ctx context.Context, args ...string) error {
	command := append(
		[]string{
			"upgrade",
			"--install",
			Release,
			"CHART",
			"--namespace",
			Namespace,
			"--create-namespace",
			"--set",
			"upgrade.check=false",
		},
		RequiredValues()...)
	command = append(command, args...)
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, waits.Limit(time.Minute), true, func(ctx context.Context) (bool, error) {
		_, last = h.Run(ctx, slices.Clone(command)...)
		if last != nil && !refusal.UnknownParameters(last.Error()) && !refusal.UnknownKind(last.Error()) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// Template renders the chart without a cluster, with RequiredValues and args.
func (h *Helm) Template(ctx context.Context, args ...string) ([]*unstructured.Unstructured, error) {
	command := append([]string{"template", Release, "CHART", "--namespace", Namespace}, RequiredValues()...)
	out, err := h.Run(ctx, append(command, args...)...)
	if err != nil {
		return nil, err
	}
	return Decode(out)
}

// Decode returns the objects of a stream of YAML documents; empty ones are left out.
func Decode(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := new(unstructured.Unstructured)
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode a manifest: %w", err)
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}

// WriteKubeconfig writes a file with the token of config. Its users do not verify the
// server's certificate.
func WriteKubeconfig(path string, config *rest.Config) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, InsecureSkipTLSVerify: true}
	c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "admin"}
	c.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}
