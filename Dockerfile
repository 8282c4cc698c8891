# A server with its experiments in a SQLite file on a volume; see docs/self-host.md.
FROM python:3.13-slim
RUN useradd --create-home --uid 10001 bestarm && install --directory --owner bestarm /data
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[cli,server,postgres]'
USER bestarm
ENV BESTARM_STORE=sqlite:////data/experiments.db
VOLUME /data
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz')"]
CMD ["bestarm", "serve", "--host", "0.0.0.0"]
