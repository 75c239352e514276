package graph_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// chromium is one headless browser, driven over the DevTools protocol through two
// pipes: no port, no other library.
type chromium struct {
	t       *testing.T
	out     io.Writer
	session string

	mu      sync.Mutex
	id      int
	waiting map[int]chan answer
	events  []event
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// startChromium skips without a browser; dev/test gets one, and in CI nothing may
// be skipped.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	if testing.Short() {
		t.Skip("the page is tested in a browser")
	}
	program := ""
	for _, name := range []string{os.Getenv("RABBITCTL_BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no Chromium: dev/browser gets one")
	}
	profile, err := os.MkdirTemp("", "rabbitctl-browser-")
	if err != nil {
		t.Fatal(err)
	}
	toRead, toWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromRead, fromWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, fromWrite} // descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toRead.Close()
	fromWrite.Close()
	c := &chromium{t: t, out: toWrite, waiting: map[int]chan answer{}}
	go c.read(fromRead)
	t.Cleanup(func() {
		c.session = ""
		c.send("Browser.close", nil)
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		toWrite.Close()
		fromRead.Close()
		_ = os.RemoveAll(profile)
	})
	c.attach()
	return c
}

func (c *chromium) read(in io.Reader) {
	r := bufio.NewReader(in)
	for {
		data, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID int `json:"id"`
			answer
			event
		}
		if json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &m) != nil {
			continue
		}
		c.mu.Lock()
		if m.ID != 0 {
			if ch := c.waiting[m.ID]; ch != nil {
				ch <- m.answer
			}
		} else {
			c.events = append(c.events, m.event)
		}
		c.mu.Unlock()
	}
}

// send asks for something; nil: no answer came.
func (c *chromium) send(method string, params any) *answer {
	c.mu.Lock()
	c.id++
	id, ch := c.id, make(chan answer, 1)
	c.waiting[id] = ch
	c.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if c.session != "" {
		message["sessionId"] = c.session
	}
	data, err := json.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.out.Write(append(data, 0)); err != nil {
		return nil
	}
	select {
	case a := <-ch:
		return &a
	case <-time.After(60 * time.Second):
		return nil
	}
}

// do is send for what must succeed; result may be nil.
func (c *chromium) do(method string, params, result any) {
	c.t.Helper()
	a := c.send(method, params)
	if a == nil {
		c.t.Fatalf("%s: the browser does not answer", method)
	}
	if a.Error != nil {
		c.t.Fatalf("%s: %s", method, a.Error.Message)
	}
	if result != nil {
		if err := json.Unmarshal(a.Result, result); err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
	}
}

func (c *chromium) attach() {
	var target struct {
		TargetID string `json:"targetId"`
	}
	c.do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct {
		SessionID string `json:"sessionId"`
	}
	c.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	c.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.do(domain+".enable", nil, nil)
	}
}

// open shows a file and waits until its script has run.
func (c *chromium) open(file string, width, height int, scheme string) {
	c.t.Helper()
	c.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	c.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	c.mu.Lock()
	c.events = nil
	c.mu.Unlock()
	c.do("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	c.wait(`document.documentElement.dataset.ready === "true"`)
}

// value evaluates an expression into result.
func (c *chromium) value(expression string, result any) {
	c.t.Helper()
	var v struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	c.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &v)
	if v.Exception != nil {
		c.t.Fatalf("%s: %s", expression, v.Exception.Text)
	}
	if err := json.Unmarshal(v.Result.Value, result); err != nil {
		c.t.Fatalf("%s: %v in %s", expression, err, v.Result.Value)
	}
}

func (c *chromium) text(expression string) (s string) {
	c.t.Helper()
	c.value(expression, &s)
	return s
}

func (c *chromium) number(expression string) (n float64) {
	c.t.Helper()
	c.value(expression, &n)
	return n
}

// wait waits until an expression is true.
func (c *chromium) wait(expression string) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var is bool
		c.value("(() => { try { return Boolean("+expression+") } catch { return false } })()", &is)
		if is {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("never came true: %s; the focus is on %s", expression, c.text(`document.activeElement.outerHTML.slice(0, 200)`))
		}
	}
}

func (c *chromium) mouse(kind string, x, y float64, more map[string]any) {
	c.t.Helper()
	params := map[string]any{"type": kind, "x": x, "y": y}
	for k, v := range more {
		params[k] = v
	}
	c.do("Input.dispatchMouseEvent", params, nil)
}

func (c *chromium) click(x, y float64) {
	c.t.Helper()
	button := map[string]any{"button": "left", "buttons": 1, "clickCount": 1}
	c.mouse("mouseMoved", x, y, nil)
	c.mouse("mousePressed", x, y, button)
	c.mouse("mouseReleased", x, y, button)
}

func (c *chromium) key(name string, code int) {
	c.t.Helper()
	down := map[string]any{"type": "rawKeyDown", "key": name, "code": name, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code}
	c.do("Input.dispatchKeyEvent", down, nil)
	down["type"] = "keyUp"
	c.do("Input.dispatchKeyEvent", down, nil)
}

// middle is the middle of the first element that a selector finds, in the window.
func (c *chromium) middle(selector string) (x, y float64) {
	c.t.Helper()
	var r [2]float64
	c.value(fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`, selector), &r)
	return r[0], r[1]
}

// screenshot saves what is seen, for people, when RABBITCTL_SCREENSHOTS names a
// folder.
func (c *chromium) screenshot(name string) {
	c.t.Helper()
	folder := os.Getenv("RABBITCTL_SCREENSHOTS")
	if folder == "" {
		return
	}
	var shot struct {
		Data []byte `json:"data"`
	}
	c.do("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	if err := os.WriteFile(folder+"/"+name+".png", shot.Data, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// complaints are what the page did wrong since it was opened: errors, whatever the
// content security policy stopped, and requests to anything but the file itself.
func (c *chromium) complaints(file string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, e := range c.events {
		switch e.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded":
			all = append(all, e.Method+": "+string(e.Params))
		case "Runtime.consoleAPICalled":
			all = append(all, "console: "+string(e.Params))
		case "Network.requestWillBeSent":
			var p struct {
				Request struct {
					URL string `json:"url"`
				} `json:"request"`
			}
			if json.Unmarshal(e.Params, &p) != nil || p.Request.URL != "file://"+file && p.Request.URL != "data:," {
				all = append(all, "request: "+p.Request.URL)
			}
		}
	}
	return all
}
