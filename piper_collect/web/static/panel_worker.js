/** Receives and decodes the cameras' pictures away from the thread that sends the poses. */

const RETRY_MS = 2000;

let socket = null;
let settings = null;
let timer = 0;

onmessage = ({ data }) => {
  if (data.type === 'watch') {
    settings = data;
    open();
  } else if (data.type === 'shown' && socket?.readyState === WebSocket.OPEN) {
    socket.send(JSON.stringify({ type: 'shown', camera: data.camera }));
  }
};

function open() {
  clearTimeout(timer);
  if (socket) {
    socket.onclose = null;
    socket.close();
  }
  socket = new WebSocket(settings.url);
  socket.binaryType = 'arraybuffer';
  socket.onopen = () => socket.send(JSON.stringify({ type: 'watch', token: settings.token }));
  socket.onmessage = ({ data }) => show(data);
  socket.onclose = ({ reason }) => {
    postMessage({ type: 'closed', reason });
    timer = setTimeout(open, RETRY_MS);
  };
}

async function show(message) {
  const camera = new DataView(message).getUint8(0);
  const count = new DataView(message).getUint32(1);
  try {
    const bitmap = await createImageBitmap(new Blob([message.slice(5)], { type: 'image/jpeg' }));
    postMessage({ type: 'picture', camera, count, bitmap }, [bitmap]);
  } catch {
    socket.send(JSON.stringify({ type: 'shown', camera })); // not a picture: wait for the next
  }
}
